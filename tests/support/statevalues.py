"""Values that state may hold, for property tests of what stores them."""

from __future__ import annotations

from hypothesis import strategies as st

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes(),
    st.uuids(),
)
"""Plain values, without time zones and durations."""
