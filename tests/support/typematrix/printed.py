"""What Spark's `to_json` prints for each value of the matrix, recorded; a test compares it with the Spark that is installed.

```
python -m typematrix.printed        # records anew, with Spark
```
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typematrix import kinds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "types" / "to_json.json"


def in_spark(spark: SparkSession, columns: Sequence[kinds.Column]) -> DataFrame:
    """Return columns of the matrix as a frame of Spark, with Spark's types."""
    from pyspark.sql import types

    schema = types.StructType([types.StructField(column.name, column.kind) for column in columns])
    return spark.createDataFrame(kinds.frame(columns), schema)


def by_spark(spark: SparkSession) -> dict[str, list[str]]:
    """Return the text of `to_json(struct(column as c))` of each value."""
    from pyspark.sql import functions

    columns = kinds.columns()
    frame = in_spark(spark, columns).coalesce(1)
    texts = [functions.to_json(functions.struct(frame[f"`{column.name}`"].alias("c"))) for column in columns]
    rows = frame.select(*(text.alias(str(number)) for number, text in enumerate(texts))).collect()
    return {column.name: [row[number] for row in rows[: len(column.values)]] for number, column in enumerate(columns)}


@functools.cache
def recorded() -> Mapping[str, Sequence[str]]:
    """Return what is recorded: texts by the name of the column."""
    texts: Mapping[str, Sequence[str]] = json.loads(RECORDED.read_text())
    return texts


def main() -> None:
    """Record what Spark prints."""
    from statefulspark.testing import sessions

    texts = by_spark(sessions.shared())
    RECORDED.write_text(f"{json.dumps(texts, indent=0, ensure_ascii=True)}\n")


if __name__ == "__main__":
    main()
