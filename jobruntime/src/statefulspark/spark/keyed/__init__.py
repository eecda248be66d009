"""Keyed state on Spark: `keyed_process` and its short forms, and the record of the operators that a job declared.

This package is the only one that connects `statefulspark.state` with the engine.
"""

from statefulspark.spark.keyed.mapping import flat_map_with_state, map_with_state
from statefulspark.spark.keyed.operator import keyed_process
from statefulspark.spark.keyed.registry import Operator, OperatorRegistry, collecting

__all__ = ["Operator", "OperatorRegistry", "collecting", "flat_map_with_state", "keyed_process", "map_with_state"]
