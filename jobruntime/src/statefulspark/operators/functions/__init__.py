"""Functions with operator state on Spark: sinks and sources that run on the driver."""

from statefulspark.operators.functions.job import JobFunctions
from statefulspark.operators.functions.source import from_source

__all__ = ["JobFunctions", "from_source"]
