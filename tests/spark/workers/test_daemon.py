"""Python workers of a job come from one process that has imported what they need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def look(_: Iterable[object]) -> Iterator[tuple[int, bool, float]]:
    """Tell where this worker comes from, what it had before it did anything, and that libraries with threads work in it."""
    had_all = {"pandas", "pyarrow", "statefulspark.operators.keyed.processor"} <= sys.modules.keys()
    import numpy as np
    import pyarrow.compute

    table = pa.table({"k": list(range(1000)) * 100, "v": [1] * 100_000})
    summed = table.group_by("k", use_threads=True).aggregate([("v", "sum")])["v_sum"]
    products = np.ones((200, 200)) @ np.ones((200, 200))
    yield os.getppid(), had_all, pyarrow.compute.sum(summed).as_py() + float(products.sum())


def in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, as a step of a query; Spark gives it another environment than a plain job's."""
    [(parent, had_all, total)] = look(batches)
    yield pa.RecordBatch.from_pydict({"parent": [parent], "had_all": [had_all], "total": [total]})


def test_one_process_that_has_everything_makes_the_workers_of_all_operators(spark: SparkSession) -> None:
    [plain] = spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect()
    [in_query] = spark.range(0, 1, 1, 1).mapInArrow(in_arrow, "parent long, had_all boolean, total double").collect()
    assert plain == tuple(in_query)
    assert plain[1:] == (True, 100_000 + 200.0**3)
