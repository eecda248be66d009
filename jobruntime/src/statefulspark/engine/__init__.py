"""The Spark engine: a JVM that is started early, the session, its settings, and the state that only Spark can read or write.

Nothing here knows the protocol of a job; the driver calls these functions.
"""
