"""The end of event time, for Spark and for functions."""

from __future__ import annotations

from typing import Final

END_OF_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: the watermark of a batch that ends event time. Spark computes with watermarks in
microseconds and adds intervals to them, so it cannot be Flink's value, which is the largest 64-bit number."""
