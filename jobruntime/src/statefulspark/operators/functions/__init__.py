"""Functions with operator state on Spark: sinks and sources that run on the driver."""

from statefulspark.operators.functions.job import JobFunctions
from statefulspark.operators.functions.source import read_function

__all__ = ["JobFunctions", "read_function"]
