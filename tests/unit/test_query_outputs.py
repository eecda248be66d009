"""What a query function may return, and what each of its sinks gets."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import statefulspark as ss
from statefulspark import errors
from statefulspark.declaration import QueryOutputs, Selection, read_result

FRAME: Any = SimpleNamespace(columns=["customer", "total"])


class Function(ss.driver.SinkFunction[object]):
    """Does nothing."""

    def invoke(self, value: object, ctx: object) -> None:
        """Never called."""


def an_output(uid: str = "all", df: Any = FRAME, **settings: Any) -> ss.Output:
    return ss.write(df, **{"sink": ss.sinks.FilesSink(f"s3://shop/{uid}"), "uid": uid, **settings})


def outputs(*returned: ss.Output) -> QueryOutputs:
    written = read_result(returned[0] if len(returned) == 1 else list(returned), "q")
    assert isinstance(written, QueryOutputs)
    return written


def test_an_output_alone_gets_the_stream_as_it_is() -> None:
    written = outputs(an_output())
    assert (written.frame, written.selections) == (FRAME, (None,))


def test_outputs_without_conditions_get_the_stream_as_it_is_or_their_columns() -> None:
    written = outputs(
        an_output(), an_output("some", columns=["total"]), an_output("turned", columns=("total", "customer"))
    )
    assert (written.frame, written.selections) == (FRAME, (None, Selection((1,)), Selection((1, 0))))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType; return ss.write"),
        ("a word", "returned str"),
        ([], "returned list"),
        ([an_output(), "a word"], "returned list"),
        ([an_output(), an_output()], "two outputs with the uid 'all'"),
        (
            [an_output(), an_output("b", SimpleNamespace(columns=["total"]))],
            "differ in df. A query computes one stream",
        ),
        ([an_output(), an_output("b", output_mode="update")], "differ in output_mode"),
        ([an_output(), an_output("b", trigger="1s")], "differ in trigger"),
        (
            [an_output(trigger="1000ms"), an_output("b"), an_output("c", trigger="1s")],
            "'all' and 'b' .* differ in trigger",
        ),
        (an_output(columns=["customer", "amount"]), "columns=.'customer', 'amount'.; choose from customer, total"),
        (an_output(columns=[]), "choose from customer, total"),
        ([an_output(), an_output("f", sink=ss.sinks.DriverSink(Function()))], "'f' .* must be the query's only output"),
        (an_output("f", sink=ss.sinks.DriverSink(Function()), where="true"), "must be the query's only output"),
        (an_output("f", sink=ss.sinks.DriverSink(Function()), columns=["total"]), "must be the query's only output"),
    ],
)
def test_outputs_that_do_not_fit_one_another_are_refused_by_name(returned: object, message: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=message) as refused:
        read_result(returned, "q")
    assert refused.value.reason == "QueryInvalid"


def test_triggers_that_mean_the_same_fit() -> None:
    written = outputs(an_output(trigger="1000ms"), an_output("b", trigger=timedelta(seconds=1)))
    assert [output.uid for output in written.outputs] == ["all", "b"]
