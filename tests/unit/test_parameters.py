"""Parameters come as text, and a job gets what its class says, or nothing at all."""

from __future__ import annotations

import enum
import runpy
import typing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pydantic
import pytest
import statefulspark as ss
from statefulspark import errors, parameters


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Everything:
    brokers: str
    rows: int = 20
    rate: float = 1.0
    fast: bool = False
    amount: Decimal = Decimal(1)
    gap: timedelta = timedelta(minutes=1)
    since: datetime | None = None
    limit: int | None = None
    mode: Literal["warm", "1x"] = "warm"
    color: Color = Color.RED
    topics: list[str] = field(default_factory=list)
    numbers: tuple[int, ...] = ()


class Model(pydantic.BaseModel):
    brokers: str
    rows: int = pydantic.Field(default=20, gt=0)


GIVEN = {
    "brokers": "kafka:9092",
    "rows": "4",
    "rate": "1.5",
    "fast": "true",
    "amount": "1.10",
    "gap": "1h30m",
    "since": "2026-01-01T00:00:00Z",
    "limit": "7",
    "mode": "1x",
    "color": "blue",
    "topics": "a, b",
    "numbers": "1,2",
}


def test_text_becomes_the_type_of_each_field() -> None:
    assert parameters.read(parameters.declare(Everything), GIVEN, "words") == Everything(
        "kafka:9092",
        rows=4,
        rate=1.5,
        fast=True,
        amount=Decimal("1.10"),
        gap=timedelta(minutes=90),
        since=datetime(2026, 1, 1, tzinfo=UTC),
        limit=7,
        mode="1x",
        color=Color.BLUE,
        topics=["a", "b"],
        numbers=(1, 2),
    )


class Level(enum.Enum):
    LOW = 1
    HIGH = "high"


@dataclass
class Numbered:
    level: Level
    partitions: Literal[8, 16, "all"]


@pytest.mark.parametrize(
    ("texts", "values"),
    [(("1", "16"), (Level.LOW, 16)), (("high", "all"), (Level.HIGH, "all"))],
    ids=["numbers", "words"],
)
def test_a_member_may_be_a_number(texts: tuple[str, str], values: tuple[object, object]) -> None:
    """`Input should be 1 or 'high'` was the answer to 1."""
    given = dict(zip(("level", "partitions"), texts, strict=True))

    read = parameters.read(parameters.declare(Numbered), given, "words")

    assert isinstance(read, Numbered)
    assert (read.level, read.partitions) == values


def test_what_is_not_given_has_its_default() -> None:
    assert parameters.read(parameters.declare(Everything), {"brokers": "k"}, "words") == Everything("k")
    assert parameters.read(parameters.declare(Model), {"brokers": "k"}, "words") == Model(brokers="k")


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("rows", "four", "'rows' is 'four', which is no int"),
        ("rows", "4.5", "'rows' is '4.5', which is no int"),
        ("fast", "perhaps", "'fast' is 'perhaps', which is no bool"),
        ("amount", "much", "'amount' is 'much', which is no Decimal"),
        ("gap", "5 seconds", "'gap' is '5 seconds', which is no timedelta (The duration '5 seconds' must be a number"),
        ("since", "2026-01-01T00:00:00", "which is no datetime | None (a time zone is missing)"),
        ("mode", "hot", "which is no Literal['warm', '1x']"),
        ("color", "green", "'color' is 'green', which is no Color"),
        ("numbers", "1,b", "'numbers' is '1,b', which is no tuple[int, ...]"),
        ("row", "1", "'row' is none of its parameters (did you mean 'rows'?)"),
        ("xyz", "1", "'xyz' is none of its parameters (it has: brokers, rows, "),
    ],
)
def test_a_parameter_that_does_not_fit_is_named_with_value_and_type(name: str, text: str, what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as raised:
        parameters.read(parameters.declare(Everything), {"brokers": "k", name: text}, "words")

    assert raised.value.reason == "ParametersInvalid"
    assert what in raised.value.message


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(errors.InvalidArgumentError) as raised:
        parameters.read(parameters.declare(Everything), {"rows": "four", "fsat": "true"}, "words")

    assert [part in raised.value.message for part in ("'brokers' (str) is missing", "'four'", "'fast'?")] == [True] * 3


def test_validators_of_a_model_have_their_say() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="'rows': Input should be greater than 0"):
        parameters.read(parameters.declare(Model), {"brokers": "k", "rows": "-1"}, "words")


def test_a_dataclass_can_refuse_a_combination() -> None:
    @dataclass
    class Range:
        first: int
        last: int

        def __post_init__(self) -> None:
            if self.last < self.first:
                raise ValueError("last is before first")

    with pytest.raises(errors.InvalidArgumentError, match="do not fit Range: last is before first"):
        parameters.read(parameters.declare(Range), {"first": "2", "last": "1"}, "words")


@pytest.mark.parametrize(
    "hint", [dict, list, dict[str, int], int | str, list[list[int]], bytes, object, typing.Any, Everything]
)
def test_a_type_that_text_cannot_become_is_refused_when_it_is_declared(hint: object) -> None:
    kind = type("Odd", (), {"__annotations__": {"rows": hint}})

    with pytest.raises(errors.InvalidTypeError, match="The parameter 'rows' of Odd is"):
        ss.Job("words").parameters(dataclass(kind))


def test_only_a_class_with_fields_declares_parameters() -> None:
    with pytest.raises(errors.InvalidTypeError, match="takes a dataclass or a pydantic model"):
        ss.Job("words").parameters(int)


def test_a_query_gets_the_class_that_the_job_declares() -> None:
    job = ss.Job("words")
    assert job.parameters(Everything) is Everything

    context = job.definition.context("words", "default", {"brokers": "k", "rows": "3"})

    assert context.parameters == Everything("k", rows=3)


def test_without_a_declaration_parameters_are_text() -> None:
    assert ss.Job("words").definition.context("words", "default", {"rows": "3"}).parameters == {"rows": "3"}


def test_types_are_those_of_the_job_file_also_when_it_is_gone_from_the_modules(tmp_path: Path) -> None:
    """A job file is run, and is no module afterwards; its annotations are text."""
    file = tmp_path / "job.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from datetime import timedelta\n"
        "import statefulspark as ss\n"
        "job = ss.Job('sessions')\n"
        "@job.parameters\n"
        "@dataclass\n"
        "class Parameters:\n"
        "    gap: timedelta\n"
    )
    job = runpy.run_path(str(file), run_name="a_job_file")["job"]

    assert job.definition.context("sessions", "default", {"gap": "90s"}).parameters.gap == timedelta(seconds=90)


def test_a_type_that_cannot_be_found_is_told() -> None:
    kind = dataclass(type("Odd", (), {"__annotations__": {"rows": "Missing"}}))

    with pytest.raises(errors.InvalidTypeError, match=r"types of Odd cannot be read.*'Missing' is not defined"):
        ss.Job("words").parameters(kind)


class Aliased(pydantic.BaseModel):
    max_rows: int = pydantic.Field(alias="maxRows")
    topic: str = pydantic.Field(default="a", validation_alias=pydantic.AliasChoices("topic-name", "t"))


def test_a_parameter_has_the_name_of_its_field_also_if_the_field_has_an_alias() -> None:
    read = parameters.read(parameters.declare(Aliased), {"max_rows": "7", "topic": "b"}, "flights")

    assert isinstance(read, Aliased)
    assert (read.max_rows, read.topic) == (7, "b")


@dataclass(frozen=True)
class Asserting:
    rows: int

    def __post_init__(self) -> None:
        assert self.rows > 0, "rows are too few"


def test_an_assertion_of_a_dataclass_is_told_as_what_it_is() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="do not fit Asserting: AssertionError: rows are too few"):
        parameters.read(parameters.declare(Asserting), {"rows": "0"}, "flights")
