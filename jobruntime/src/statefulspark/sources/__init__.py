"""Stateful sources: functions that produce rows on the driver, with state that is snapshotted together with the rows.

This package does not use Spark: rows are collected under a lock, cut into segments with their state, written to storage
before the batch that reads them is planned, and served on a loopback socket to the data source that Spark runs.
"""
