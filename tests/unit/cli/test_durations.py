"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark import errors
from statefulspark.cli import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("10s", 10),
        ("2m", 120),
        ("1h", 3600),
        ("7d", 604800),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, seconds: float) -> None:
    assert durations.parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["10", "", "s", "-5s", "10 s", "10S", "1h30", "10sec", "\u0661s", "9" * 12 + "s"])
def test_what_is_no_duration_is_refused_by_value(text: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        durations.parse(text)

    assert (raised.value.reason, repr(text) in raised.value.message) == ("DurationInvalid", True)


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
