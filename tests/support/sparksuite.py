"""Spark's own tests of its stateful operators, run with ours in their place.

They come with PySpark: not as files, but in `pyspark.zip`. A test runs as it is written, in the session of our tests and
with the settings that its class asks for; only what it calls on a grouped frame is ours.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyspark
import pyspark.sql
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, GroupedData, SparkSession
from statefulspark.operators import groupstate, transform

_ALL_MODULES = "pyspark.sql.tests"
_MODULES = f"{_ALL_MODULES}.pandas"
_UID = "suite"
_KEY_GROUPS = 4
_OF_THE_CLASS_ITSELF = "test_assert_classic_mode"
"""What Spark adds to each class: that it has no Spark Connect."""
_TOO_SLOW, _ATTEMPTS = "Python worker failed to connect back", 3
"""Spark gives a worker that it starts with a query ten seconds; that it took longer on a busy machine decides nothing."""
_BETWEEN_FILES_S = 2
"""What tests wait for so that files differ in their time."""


@dataclass(frozen=True, slots=True)
class SuiteClass:
    """A class of Spark's tests.

    Attributes:
        module: Its module, in the package of Spark's tests with pandas.
        name: Its name.
        settings: What its session has, where tests depend on it.
    """

    module: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def tests(self) -> tuple[str, ...]:
        """Return the names of its tests."""
        return tuple(name for name in unittest.TestLoader().getTestCaseNames(self.load()) if not _is_of_all(name))

    def load(self) -> type[unittest.TestCase]:
        """Return the class."""
        found: type[unittest.TestCase] = getattr(self._load_module(), self.name)
        return found

    def _load_module(self) -> types.ModuleType:
        """Return its module; workers get what is of it as pickled code, since they do not know the archive."""
        root = os.fspath(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip" / "pyspark" / "sql")
        if root not in pyspark.sql.__path__:
            pyspark.sql.__path__.append(root)
        cloudpickle.register_pickle_by_value(importlib.import_module(_ALL_MODULES))  # type: ignore[no-untyped-call]
        return importlib.import_module(f"{_MODULES}.{self.module}")

    def modules(self) -> tuple[types.ModuleType, ...]:
        """Return the modules of its tests: its own, and those of the classes that it inherits tests from."""
        names = {base.__module__ for base in self.load().__mro__}
        return tuple(sys.modules[name] for name in sorted(names) if name.startswith(_ALL_MODULES))


def _is_of_all(test: str) -> bool:
    return test == _OF_THE_CLASS_ITSELF


@dataclass(frozen=True, slots=True)
class Result:
    """How a test of Spark's ended.

    Attributes:
        failure: What failed, as a traceback; empty when nothing did.
        skipped: Why it did not run; empty when it did.
    """

    failure: str
    skipped: str


def run(spark: SparkSession, suite: SuiteClass, test: str, folder: Path, *, key_groups: int = _KEY_GROUPS) -> Result:
    """Run one of Spark's tests with our operators.

    Args:
        spark: The session.
        suite: Its class.
        test: Its name.
        folder: For its files.
        key_groups: How many our operators have. With one, keys come out in the order in which they came.
    """
    for attempt in range(_ATTEMPTS):
        place = folder / f"{attempt}"
        place.mkdir()
        result = _run_once(spark, suite, test, place, key_groups)
        if _TOO_SLOW not in result.failure:
            break
    return result


def _run_once(spark: SparkSession, suite: SuiteClass, test: str, folder: Path, key_groups: int) -> Result:
    # What starts and stops a session is done for classes, and not for a single case.
    case = type(suite.name, (suite.load(),), {"spark": spark})
    found = unittest.TestResult()
    with _substituted(suite.modules(), folder, key_groups), _settings(spark, suite.settings):
        try:
            case(test).run(found)
        finally:
            for query in spark.streams.active:
                query.stop()
    failures = [told for _, told in [*found.errors, *found.failures]]
    return Result("\n".join(failures), " ".join(reason for _, reason in found.skipped))


class _Clock(types.ModuleType):
    """The module `time`, where files need not be seconds apart: Spark tells them apart by milliseconds."""

    def __init__(self) -> None:
        super().__init__("time")
        self.__dict__.update(vars(time))
        self.sleep = lambda duration_s: time.sleep(0.02 if duration_s == _BETWEEN_FILES_S else duration_s)


@contextlib.contextmanager
def _open_new(name: str, mode: str) -> Iterator[IO[str]]:
    """Open a file that is there when it is whole: a query may look for files at any moment.

    What it finds empty it has read, for ever (seen with `test_fuzz_topk`, on a busy machine).
    """
    file = Path(name)
    hidden = file.with_name(f".{file.name}")
    with hidden.open(mode) as opened:
        yield opened
    hidden.rename(file)


@contextlib.contextmanager
def _substituted(modules: Iterable[types.ModuleType], folder: Path, key_groups: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, ours in _OPERATORS.items():
            patch.setattr(GroupedData, name, _calling(ours, key_groups))
        for module in modules:
            patch.setattr(module, "time", _Clock(), raising=False)
            patch.setattr(module, "open", _open_new, raising=False)
        patch.setattr(tempfile, "tempdir", os.fspath(folder))
        yield


_OPERATORS: dict[str, Callable[..., DataFrame]] = {
    "transformWithState": transform.transform_with_state,
    "transformWithStateInPandas": transform.transform_with_state_in_pandas,
    "applyInPandasWithState": groupstate.apply_in_pandas_with_state,
}
_SPARKS = GroupedData.transformWithStateInPandas


def _calling(ours: Callable[..., DataFrame], key_groups: int) -> Callable[..., DataFrame]:
    def call(grouped: GroupedData, *arguments: object, **named: object) -> DataFrame:
        with pytest.MonkeyPatch.context() as patch:
            # Ours are built on it: inside them it is itself.
            patch.setattr(GroupedData, "transformWithStateInPandas", _SPARKS)
            return ours(grouped, *arguments, uid=_UID, max_parallelism=key_groups, **named)

    return call


@contextlib.contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
