"""Stateful sources: functions that produce rows on the driver, with state that is cut together with them.

No Spark in here: rows are collected under a lock, cut into segments with the state they belong to, written to storage
before the batch that reads them is planned, and offered on a loopback socket to the data source that Spark runs.
"""
