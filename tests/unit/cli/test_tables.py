"""Text for people."""

from __future__ import annotations

import pytest
from statefulspark.commandline import tables
from statefulspark.contract import sizes


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    text = tables.columns(("ID", "TRIGGER"), [("1", "periodic"), ("1000", "")])

    assert text == "ID     TRIGGER\n1      periodic\n1000   -\n"


def test_pairs_without_a_value_are_left_out() -> None:
    assert (
        tables.pairs((("Id", "42"), ("Name", None), ("Location", "s3://b"))) == "Id:         42\nLocation:   s3://b\n"
    )


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (1500, "1.46 KiB"),
        (123_456_789, "118 MiB"),
        (5 * 1024**3, "5.00 GiB"),
        (3 * 1024**6, "3.07e+03 PiB"),
    ],
)
def test_a_size_has_three_digits(size_bytes: int, text: str) -> None:
    assert sizes.format_short(size_bytes) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0ms"), (340, "340ms"), (999.7, "1.0s"), (2400, "2.4s"), (146_934, "2m26s")]
)
def test_a_duration_has_the_unit_that_people_read(duration_ms: float, text: str) -> None:
    """The duration of a batch was 146934 ms."""
    assert tables.milliseconds(duration_ms) == text
