"""The command `statefulspark`: run a job, look at its snapshots on storage, ask its driver.

Commands read like kubectl's: a noun, a verb, flags. What only reads storage starts without an engine, so nothing here
imports pyspark before a job is run.
"""
