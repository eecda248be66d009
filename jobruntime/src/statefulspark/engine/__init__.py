"""Spark itself: a JVM started ahead, the session and its settings, and what only Spark can read or write.

Nothing here knows the job's protocol; a driver tells it what to do.
"""
