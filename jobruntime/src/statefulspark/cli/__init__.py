"""The command `statefulspark`: runs a job, reads its snapshots on storage, calls its driver.

Commands read like kubectl's: a noun, a verb, flags. Commands that only read storage start without Spark, so nothing in
this package imports pyspark before a job is run.
"""
