"""Calls of the library that raise are found in a job file that is not run; calls that may work are left alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import statefulspark
from statefulspark import errors, librarycalls

_FILE = Path("/app/job.py")


def refuse(source: str) -> None:
    librarycalls.refuse_wrong(ast.parse(source), _FILE, statefulspark)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param(
            "import statefulspark as ss\nss.writ", "has no attribute 'writ' (did you mean 'write'?)", id="name"
        ),
        pytest.param(
            "from statefulspark import write\ndef f():\n    return write(1, sink=2)",
            "line 3 raises TypeError: write() missing a required argument: 'uid'",
            id="a missing argument of an imported name",
        ),
        pytest.param(
            "import statefulspark\nstatefulspark.write(1, 2, uid=3, sink=4)",
            "TypeError: write() too many positional arguments",
            id="a positional argument too many",
        ),
        pytest.param(
            "import statefulspark as ss\nss.Job(nam='w')",
            "Job() got an unexpected keyword argument 'nam' (did you mean 'name'?)",
            id="a misspelt argument of a class",
        ),
        pytest.param(
            "import statefulspark as ss\nss.sinks.FileSink('s3://b')",
            "module 'statefulspark.sinks' has no attribute 'FileSink' (did you mean 'FilesSink'?)",
            id="a name of a public module",
        ),
        pytest.param(
            "import statefulspark as ss\nss.sinks.FilesSink('s3://b', 'zstd')",
            "FilesSink() too many positional arguments",
            id="a call of a public module",
        ),
        pytest.param("import statefulspark as ss\nss.x1\nss.x2", "line 2 raises", id="the first of several"),
    ],
)
def test_a_call_that_raises_is_told_with_its_line(source: str, why: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        refuse(source)

    assert raised.value.reason == "JobFileRaised"
    assert why in raised.value.message


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import statefulspark as ss\nss.write(1, sink=2, uid=3)", id="it is right"),
        pytest.param("import statefulspark as ss\nss.write(*rows, **options)", id="its arguments are not known"),
        pytest.param(
            "import statefulspark as ss\nss.map_with_state(1, key='k', function=f, uid='u', schema='v long', "
            "timers='x')",
            id="it takes any name",
        ),
        pytest.param("import statefulspark as ss\ndef f(ss):\n    ss.anything()", id="the name means something else"),
        pytest.param("import statefulspark as ss\nif hasattr(ss, 'old'):\n    ss.old()", id="the file asks first"),
        pytest.param("import statefulspark as ss\ntry:\n    ss.old()\nexcept AttributeError:\n    pass", id="a try"),
        pytest.param("from other import write\nwrite()", id="a function of another library"),
        pytest.param("import statefulspark as ss\nss.__version__", id="the version"),
        pytest.param("import statefulspark as ss\nss.sinks.FilesSink('s3://b', compression='gzip')", id="a sink"),
        pytest.param("import statefulspark as ss\nss.Secret.env('X').reveal()", id="a method of a class"),
    ],
)
def test_what_may_work_is_left_alone(source: str) -> None:
    refuse(source)
