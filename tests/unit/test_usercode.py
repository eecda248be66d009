"""A traceback is cut down to the file and line that the user wrote."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import types as spark_types
from statefulspark import usercode
from statefulspark.operators.keyed import processor
from statefulspark.state import functions

_TEXT = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] Traceback (most recent call last):
  File "/opt/statefulspark/lib/python3.11/site-packages/statefulspark/operators/keyed/processor.py", line 96, in handle
    yield from self._work_on(self._group_of(key), table)
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 9, in main
  File "/app/job.py", line 12, in process
    bad(key)
    ^^^^^^^^
  File "/app/rules.py", line 3, in bad
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
Caused by: again
  File "/app/job.py", line 12, in process
    bad(key)
"""


def test_of_a_text_the_users_calls_are_left_each_once() -> None:
    frames = usercode.parse_frames(_TEXT)

    assert frames == (
        usercode.Frame("/app/job.py", 12, "process", "bad(key)"),
        usercode.Frame("/app/rules.py", 3, "bad"),
    )
    assert frames[-1].location == "/app/rules.py:3 in bad"
    assert usercode.format_frames(frames) == (
        '  File "/app/job.py", line 12, in process\n    bad(key)\n  File "/app/rules.py", line 3, in bad'
    )


def test_code_of_the_user_may_be_installed_like_a_library() -> None:
    text = _TEXT.replace("/app/", "/opt/venv/lib/python3.11/site-packages/words/")

    assert [frame.line for frame in usercode.parse_frames(text)] == [12, 3]


@pytest.mark.parametrize("text", ["", "java.io.IOException: disk\n\tat org.apache.Foo", 'File "no line", in x'])
def test_a_text_without_a_users_call_has_none(text: str) -> None:
    assert usercode.parse_frames(text) == ()


def _raised(work: Callable[[], object]) -> BaseException:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        work()
    return caught.value


def test_of_an_exception_the_users_calls_are_left() -> None:
    def parse() -> object:
        return json.loads("{")

    places = [frame.name for frame in usercode.find_frames(_raised(parse))]

    assert (places[-1], "raw_decode" in places) == ("parse", False)


class Fails(functions.KeyedProcessFunction):
    def process(self, key: object, rows: object, ctx: object) -> object:
        raise RuntimeError(f"this key is bad: {key}")


def test_what_a_worker_sends_of_a_function_that_raised_names_its_line() -> None:
    """Spark sends the text of the last exception, without the one that caused it."""
    settings = processor.OperatorSettings("by-key", ("k",), "string", spark_types.StructType(), "UTC")
    cause = _raised(lambda: Fails().process("a", (), None))

    error = processor.KeyedProcessor(Fails(), settings)._failed("process", " for key 'a'", cause)
    error.__cause__ = None
    sent = "".join(traceback.format_exception(error))

    (*_, frame) = usercode.parse_frames(sent)
    assert (Path(frame.file).name, frame.name) == (Path(__file__).name, "process")
    assert frame.source == 'raise RuntimeError(f"this key is bad: {key}")'
