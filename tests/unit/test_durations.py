"""Durations as people write them: one grammar for flags, configuration files, the resource and its schema."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from statefulspark import durations, errors
from statefulspark.commandline import values
from statefulspark.contract import config
from statefulspark_operator.api.spec import CheckpointRetention

_CRDS = Path(__file__).parents[2] / "crds"


def _of_flag(text: str) -> timedelta:
    duration: timedelta = values.DURATION(text)
    return duration


def _of_configuration(text: str) -> timedelta | None:
    return config.RetentionConfig.model_validate({"maxAge": text}).max_age


def _of_resource(text: str) -> timedelta | None:
    return CheckpointRetention.model_validate({"maxAge": text}).max_age


@functools.cache
def _schema_of_the_api_server() -> dict[str, Any]:
    document = yaml.load((_CRDS / "statefulsparkjobs.yaml").read_text(), Loader=yaml.CSafeLoader)
    spec = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema: dict[str, Any] = spec["properties"]["checkpoint"]["properties"]["retention"]["properties"]["maxAge"]
    return schema


def _of_schema(text: str) -> timedelta | None:
    """Read a text as the API server does before the operator sees it."""
    schema = _schema_of_the_api_server()
    if not schema["minLength"] <= len(text) <= schema["maxLength"] or not re.search(schema["pattern"], text):
        raise ValueError(text)
    return durations.parse(text)


_READERS: dict[str, Callable[[str], timedelta | None]] = {
    "a flag": _of_flag,
    "a configuration file": _of_configuration,
    "the resource": _of_resource,
    "the schema of the resource": _of_schema,
}
_DURATIONS = {
    "500ms": 0.5,
    "10s": 10,
    "2m": 120,
    "1h": 3600,
    "7d": 604800,
    "1h30m": 5400,
    "1m500ms": 60.5,
    "1d12h": 129600,
    "1.5s": 1.5,
    "31536000000ms": 31536000,
    "0": 0,
    "0s": 0,
}
_NONE = ["", "10", "s", "soon", "-5s", "10 s", "10S", "1h30", "10sec", "\u0661s", "9" * 12 + "s"]


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS)
@pytest.mark.parametrize(("text", "seconds"), _DURATIONS.items())
def test_a_duration_is_read_alike_everywhere(read: Callable[[str], timedelta], text: str, seconds: float) -> None:
    assert read(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS)
@pytest.mark.parametrize("text", _NONE)
def test_what_is_no_duration_is_refused_everywhere(read: Callable[[str], timedelta], text: str) -> None:
    with pytest.raises((click.UsageError, ValueError)):
        read(text)


@pytest.mark.parametrize("text", [*_NONE, "10s\n", "99999999999d"])
def test_what_is_no_duration_is_refused_by_value(text: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        durations.parse(text)

    assert (raised.value.reason, repr(text) in raised.value.message) == ("DurationInvalid", True)


@pytest.mark.parametrize("text", ["99999999999h", "366d"])
def test_a_duration_that_the_resource_cannot_have_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(ValidationError, match="maxAge"):
        _of_resource(text)


@pytest.mark.parametrize("value", [604800.0, 604800, "P7D"])
def test_a_duration_without_a_unit_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="500ms, 10s, 2m, 1h30m or 7d"):
        config.RetentionConfig.model_validate({"maxAge": value})


def test_a_configuration_is_written_as_the_resource_is() -> None:
    written = config.RetentionConfig(max_age=timedelta(days=7)).model_dump(mode="json", by_alias=True)

    assert written["maxAge"] == "168h"


def test_a_day_is_written_as_hours_so_that_revisions_stay_what_they_are() -> None:
    assert durations.format_exact(timedelta(days=7, seconds=1.5)) == "168h1s500ms"


@given(st.integers(0, 10**9).map(lambda ms: timedelta(milliseconds=ms)))
def test_a_duration_survives_being_written_and_read(value: timedelta) -> None:
    assert durations.parse(durations.format_exact(value)) == value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-3, "0s"),
        (0.44, "0.4s"),
        (9.96, "10.0s"),
        (42, "42s"),
        (192, "3m12s"),
        (3600, "1h"),
        (3660, "1h1m"),
        (86400 * 12 + 3600 * 5 + 60, "12d5h"),
        (86400 + 30, "1d"),
    ],
)
def test_an_age_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert durations.format_short(timedelta(seconds=seconds)) == text


@given(st.integers(0, 10**8), st.sampled_from(["ms", "s", "m", "h"]))
def test_every_whole_number_with_a_unit_is_read(number: int, unit: str) -> None:
    assert durations.parse(f"{number}{unit}") == number * durations.parse(f"1{unit}")


@pytest.mark.parametrize("given", ["90s", timedelta(seconds=90)])
def test_an_argument_is_text_or_a_timedelta(given: timedelta | str) -> None:
    assert durations.of(given, "pause") == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("10 seconds", ValueError, "The pause '10 seconds' must be a number with a unit: 500ms, 10s, 2m, 1h30m or 7d."),
        (10, TypeError, "The pause 10 must be a timedelta, or a number with a unit: 500ms, 10s, 2m, 1h30m or 7d."),
        (timedelta(seconds=-1), ValueError, "The pause -1 day, 23:59:59 must not be negative."),
    ],
    ids=["another grammar", "a number", "a negative one"],
)
def test_an_argument_that_is_no_duration_is_refused_by_value(given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        durations.of(given, "pause")

    assert isinstance(raised.value, errors.SpecRejectedError)
    assert (raised.value.reason, raised.value.message) == ("DurationInvalid", message)
