"""Operator state as it is written down: what comes back equals what went in, and damage is told."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark import errors
from statefulspark.operatorstate import record
from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, OperatorStateMeta, Part
from statevalues import LEAVES

VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)
PARTS = st.lists(st.lists(VALUES, max_size=4).map(tuple), min_size=1, max_size=4)


def state_of(*parts: Part, mode: Mode = Mode.SPLIT, name: str = "buffered") -> OperatorState:
    return OperatorState(len(parts), {name: NamedState(OperatorStateMeta(name, mode), parts)})


def types_of(value: object) -> object:
    if isinstance(value, list | tuple):
        return type(value), [types_of(one) for one in value]
    if isinstance(value, dict):
        return dict, {key: types_of(one) for key, one in value.items()}
    return type(value)


@given(PARTS, st.sampled_from([Mode.SPLIT, Mode.UNION]))
def test_every_list_comes_back_with_its_types(parts: list[Part], mode: Mode) -> None:
    state = state_of(*parts, mode=mode)

    read = record.decode(record.encode("out", state), "here", uid="out")

    assert read == state
    assert types_of(read.states["buffered"].parts) == types_of(tuple(parts))


@given(st.dictionaries(st.one_of(st.text(), st.integers(), st.tuples(st.integers(), st.text())), VALUES, max_size=4))
def test_every_broadcast_map_comes_back(entries: dict[object, object]) -> None:
    state = state_of(tuple(entries.items()), tuple(entries.items()), mode=Mode.BROADCAST)

    assert record.decode(record.encode("out", state), "here") == state


def test_people_can_read_plain_values() -> None:
    document = json.loads(record.encode("out", state_of((1, "two", {"three": [3.5, None]}), ())))

    assert document == {
        "formatVersion": 1,
        "uid": "out",
        "parallelism": 2,
        "states": [
            {
                "name": "buffered",
                "mode": "SPLIT_DISTRIBUTE",
                "type": "array<any>",
                "parts": [{"values": [1, "two", {"three": [3.5, None]}]}, {"values": []}],
                "subtasks": [0, 1],
            }
        ],
    }


def test_equal_copies_are_written_once() -> None:
    document = json.loads(record.encode("rules", state_of(*[(("a", 1),)] * 50, mode=Mode.BROADCAST)))

    assert document["states"][0]["parts"] == [{"values": [["a", 1]]}]
    assert document["states"][0]["subtasks"] == [0] * 50


@pytest.mark.parametrize(
    "value",
    [
        pytest.param((1, 2), id="a tuple"),
        pytest.param(2**53 + 1, id="a whole number that floating point cannot hold"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(b"x", id="bytes"),
        pytest.param({1: 2}, id="a map with numbers as keys"),
        pytest.param(decimal.Decimal("1.10"), id="a decimal"),
        pytest.param(datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), id="a point in time"),
        pytest.param(uuid.UUID(int=7), id="a UUID"),
    ],
)
def test_what_json_would_change_is_written_as_msgpack(value: object) -> None:
    body = record.encode("out", state_of((value,)))

    assert "msgpack" in json.loads(body)["states"][0]["parts"][0]
    assert record.decode(body, "here").states["buffered"].parts == ((value,),)


def test_a_value_that_cannot_be_stored_is_refused_by_the_name_of_the_state() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"State 'buffered' was given a value of type object"):
        record.encode("out", state_of((object(),)))


GOOD = json.loads(record.encode("out", state_of((1,), ((1, 2),))))


def damaged(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def damaged_state(**changes: object) -> bytes:
    return damaged(states=[{**GOOD["states"][0], **changes}])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", "DocumentUnreadable", id="empty"),
        pytest.param(json.dumps(GOOD).encode()[:-9], "DocumentUnreadable", id="cut short"),
        pytest.param(b"\x80\x04\x95", "DocumentUnreadable", id="a pickle"),
        pytest.param(damaged(formatVersion=99), "FormatVersionUnknown", id="written by a later release"),
        pytest.param(damaged(parallelism=0), "DocumentUnreadable", id="no subtask"),
        pytest.param(damaged(parallelism=3), "OperatorStateDamaged", id="a subtask without content"),
        pytest.param(damaged(uid="other"), "OperatorStateDamaged", id="another function's state"),
        pytest.param(damaged_state(subtasks=[0, 7]), "OperatorStateDamaged", id="a content that is not there"),
        pytest.param(damaged_state(subtasks=[0, -1]), "OperatorStateDamaged", id="a negative index"),
        pytest.param(damaged_state(mode="SHUFFLE"), "DocumentUnreadable", id="an unknown mode"),
        pytest.param(damaged_state(parts=[{}, {}]), "OperatorStateDamaged", id="a content without values"),
        pytest.param(damaged_state(parts=[{"msgpack": "?"}] * 2), "OperatorStateDamaged", id="no base64"),
        pytest.param(damaged_state(parts=[{"msgpack": "kA=="}] * 2), "OperatorStateDamaged", id="no column"),
        pytest.param(damaged_state(parts=[{"msgpack": "xwFj"}] * 2), "OperatorStateDamaged", id="msgpack cut short"),
    ],
)
def test_a_damaged_document_is_told_from_an_absent_one(body: bytes, reason: str) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=r"s3://b/state\.json") as caught:
        record.decode(body, "s3://b/state.json", uid="out")

    assert caught.value.reason == reason
