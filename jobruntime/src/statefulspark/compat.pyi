"""Spark's own stateful operators, for processors that were written for plain Spark."""

from statefulspark.operators.groupstate import apply_in_pandas_with_state as apply_in_pandas_with_state
from statefulspark.operators.transform import transform_with_state as transform_with_state
from statefulspark.operators.transform import transform_with_state_in_pandas as transform_with_state_in_pandas
