"""Input of two sides that grows file by file, one file a batch, and queries that run until it ends."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

Output = dict[int, list[tuple[object, ...]]]
_FIRST_FILE_S = 1_700_000_000


class TwoSides(ABC):
    """What a rig has whose queries read, or join, `left` and `right`.

    Attributes:
        spark: The session.
        folder: Gets a folder of JSON files for each side.
        files: How many each side has.
        schema: Of both sides.
        rows_per_file: Rows of each file.
    """

    spark: SparkSession
    folder: Path
    files: int
    schema: str
    rows_per_file: int

    @abstractmethod
    def row(self, number: int, step: int, index: int) -> dict[str, object]:
        """Return a row of a file; the step is another for each side, so that each has its own rows."""

    def grow(self, count: int) -> None:
        """Add input files."""
        for number in range(self.files, self.files + count):
            for side, step in (("left", 1), ("right", 3)):
                path = self.folder / side / f"{number:04d}.json"
                path.parent.mkdir(exist_ok=True)
                rows = [self.row(number, step, index) for index in range(self.rows_per_file)]
                path.write_text("\n".join(json.dumps(row) for row in rows))
                os.utime(path, (_FIRST_FILE_S + number, _FIRST_FILE_S + number))
        self.files += count

    def source(self, side: str = "left") -> DataFrame:
        """Return the rows of a side, one file a batch."""
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / side))


def run_to_the_end(frame: DataFrame, mode: str, root: str, *, within_s: int = 600) -> Output:
    """Run a query over the rest of its input; return the rows of each of its batches."""
    output: Output = {}

    def collect(rows: DataFrame, batch: int) -> None:
        output[batch] = sorted(tuple(row) for row in rows.collect())

    writer = frame.writeStream.outputMode(mode).foreachBatch(collect)
    query = writer.option("checkpointLocation", root).trigger(availableNow=True).start()
    assert query.awaitTermination(within_s), "the query did not end"
    return output
