"""Rows as functions see them."""

from __future__ import annotations

import copy
import pickle

import pytest
from statefulspark.state import rows

_ROW = rows.row_maker(("customer", "amount", "two words"))(("ada", 2, 3))


def test_columns_are_attributes_and_items() -> None:
    assert (_ROW.customer, _ROW["amount"], _ROW["two words"], _ROW[0]) == ("ada", 2, 3, "ada")  # type: ignore[attr-defined, index]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("amout", "the rows have no column 'amout' (did you mean 'amount'?); they have customer, amount, two words"),
        ("when", "the rows have no column 'when'; they have customer, amount, two words"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_those_that_are(name: str, said: str) -> None:
    """It was `'InputRow' object has no attribute 'amout'`."""
    with pytest.raises(AttributeError) as raised:
        getattr(_ROW, name)

    assert str(raised.value) == said


def test_a_row_can_be_copied_and_asked_for_what_it_may_have() -> None:
    assert copy.copy(_ROW) == copy.deepcopy(_ROW) == _ROW
    assert getattr(_ROW, "amout", None) is None


def test_rows_of_a_process_are_plain_tuples_to_another() -> None:
    assert pickle.loads(pickle.dumps(tuple(_ROW))) == ("ada", 2, 3)  # noqa: S301 -- our own bytes


NAMES = [
    *("_id", "class", "a-b", "0", "count", "index", "_fields", "_asdict", "_0", "_1", "key_group", "a.b", "two words"),
    *("`q`", '"quoted"', "naïve", "数量", "ID", "id", "", "mro", "self", "__dunder", "None", "_corrupt_record"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name_is_an_item_and_an_attribute(name: str) -> None:
    row = rows.row_maker(tuple(NAMES))(range(len(NAMES)))
    assert row[name] == NAMES.index(name)
    assert getattr(row, name) == NAMES.index(name)


@pytest.mark.parametrize("name", ["_2", "f2", "__len__"])
def test_a_position_never_passes_for_a_column(name: str) -> None:
    row = rows.row_maker(("a", "class", "b c", "__len__"))(range(4))
    assert row["__len__"] == 3
    assert len(row) == 4
    if name != "__len__":
        with pytest.raises(AttributeError, match=f"no column '{name}'"):
            getattr(row, name)


def test_a_row_is_printed_and_becomes_a_dict_by_its_columns() -> None:
    assert repr(_ROW) == "InputRow(customer='ada', amount=2, two words=3)"
    assert _ROW._asdict() == {"customer": "ada", "amount": 2, "two words": 3}  # type: ignore[operator]
