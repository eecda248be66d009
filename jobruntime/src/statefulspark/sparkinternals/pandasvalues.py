"""Arrow columns as the pandas values that Spark gives to functions of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statefulspark.sparkinternals import releases

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def to_series(table: pa.Table, *, timezone: str, extended_integers: bool = False) -> list[pd.Series]:
    """Return the columns of a table.

    Args:
        table: The table, in one chunk.
        timezone: Session time zone, of the naive timestamps.
        extended_integers: Whether integers become pandas' nullable integers; releases before 4.2 cannot do that.
    """
    if releases.installed() >= (4, 2):  # SPARK-55175
        from pyspark.sql import conversion

        return conversion.ArrowBatchTransformer.to_pandas(
            table, timezone=timezone, prefer_int_ext_dtype=extended_integers
        )
    from pyspark.sql.pandas import serializers

    options = {"timezone": timezone, "safecheck": True, "int_to_decimal_coercion_enabled": False}
    spark: Any = serializers.ArrowStreamPandasSerializer(**options)  # type: ignore[arg-type]
    return [spark.arrow_to_pandas(column, position) for position, column in enumerate(table.itercolumns())]
