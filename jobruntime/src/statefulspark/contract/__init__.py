"""The documents and messages that the driver, the operator, the command line and the storage exchange.

Everything here is a frozen value that is serialised as JSON: the job's configuration, the manifest of a snapshot, the owner
and epoch records, the driver's HTTP API and its exit codes. It is pure: no I/O, no clock, no Spark.
"""
