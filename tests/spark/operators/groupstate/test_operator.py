"""What is refused when a query with `apply_in_pandas_with_state` is built, and what the driver knows of it then."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import pytest
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from statefulspark import errors
from statefulspark.operators.keyed import registry

pytestmark = pytest.mark.spark

EVENT_TIME = GroupStateTimeout.EventTimeTimeout


def keep(key: tuple[object, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
    """Do nothing."""
    return []


def _apply(rows: DataFrame, **changed: object) -> DataFrame:
    arguments = {
        "func": keep,
        "outputStructType": "key bigint",
        "stateStructType": "n bigint, last string",
        "outputMode": "update",
        "timeoutConf": GroupStateTimeout.NoTimeout,
        "uid": "kept",
    }
    return ss.compat.apply_in_pandas_with_state(rows.groupBy("value"), **{**arguments, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"timeoutConf": EVENT_TIME}, "no watermark. Watermark must be specified", id="no watermark"),
        pytest.param({"timeoutConf": "Soon"}, "Unknown timeout 'Soon'", id="no such timeout"),
        pytest.param({"outputMode": "complete"}, "not supported by applyInPandasWithState", id="an output mode"),
        pytest.param({"func": "keep"}, "cannot be called: it is 'keep'", id="no function"),
        pytest.param({"uid": "No Uid"}, "not a valid operator uid", id="no uid"),
        pytest.param({"max_parallelism": 0}, "max_parallelism|parallelism", id="no key groups"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(spark: SparkSession, changed: dict[str, object], words: str) -> None:
    rows = spark.readStream.format("rate").load()
    with pytest.raises(errors.SpecRejectedError, match=words):
        _apply(rows, **changed)


def test_a_batch_frame_is_refused_as_by_spark(spark: SparkSession) -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"unsupported in batch query\. Use applyInPandas"):
        _apply(spark.range(3).withColumnRenamed("id", "value"))


def test_the_driver_knows_the_state_before_a_batch(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    found = registry.OperatorRegistry()
    with registry.collecting(found, query_uid="q"):
        _apply(rows, timeoutConf=EVENT_TIME)
    (operator,) = found.operators
    declared = operator.declared()
    assert (operator.uid, operator.key, operator.key_type, operator.function) == ("kept", ("value",), "bigint", "keep")
    assert declared is not None
    assert [(one.meta.name, one.meta.type_text) for one in declared.states] == [
        ("state", "record<n:bigint,last:string>")
    ]
