"""Functions with operator state on Spark: sinks and sources that run on the driver."""

from statefulspark.spark.functions.source import from_source

__all__ = ["from_source"]
