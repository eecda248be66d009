"""When a change of the spec is another revision: by what it means, under the costs and defaults of this release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobspecs import a_spec
from pydantic import BaseModel, JsonValue
from statefulspark_operator.api import quantities, revision
from statefulspark_operator.api.base import ChangeCost
from statefulspark_operator.api.spec import StatefulSparkJobSpec

_DEFAULT = re.compile(r"\bDefault ([A-Za-z0-9-]+)[.:]|`([A-Za-z]+)` \(default\)")
_NO_VALUE = ("no", "never", "all")


def spellings(bytes_of: int) -> list[str]:
    return [str(bytes_of), f"{bytes_of}000m", f"{bytes_of / 1024:.4f}Ki", f"{bytes_of}e0"]


@given(st.integers(1, 2**40).map(lambda size: size * 1024), st.data())
def test_an_amount_is_the_same_however_it_is_spelled(size: int, data: st.DataObject) -> None:
    one, other = (data.draw(st.sampled_from(spellings(size))) for _ in range(2))
    specs = [a_spec(driver={"resources": {"limits": {"memory": text}}}) for text in (one, other)]

    assert quantities.canonical(one) == quantities.canonical(other)
    assert revision.revision_of(specs[0]) == revision.revision_of(specs[1])


@given(st.permutations([{"name": name, "value": name.lower()} for name in "ABCD"]))
def test_variables_are_the_same_in_any_order(env: list[JsonValue]) -> None:
    assert revision.revision_of(a_spec(driver={"env": env})) == revision.revision_of(a_spec(driver={"env": env[::-1]}))


def test_a_variable_that_names_one_before_it_has_a_place() -> None:
    env: list[JsonValue] = [{"name": "HOST", "value": "a"}, {"name": "ADDRESS", "value": "$(HOST):1"}]

    assert revision.revision_of(a_spec(driver={"env": env})) != revision.revision_of(a_spec(driver={"env": env[::-1]}))


def documented_defaults(model: type[BaseModel], *path: str) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield the path and the default of each field whose description names one."""
    for attribute, field in model.model_fields.items():
        name = field.serialization_alias or attribute
        parts = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        nested = next((part for part in parts if issubclass(part, BaseModel)), None)
        if nested is not None and revision.change_cost(field) is ChangeCost.RESTART:
            yield from documented_defaults(nested, *path, name)
        match = _DEFAULT.search(field.description or "")
        text = next((group for group in match.groups() if group), None) if match else None
        if text is not None and text not in _NO_VALUE and nested is None:
            value: JsonValue = {"true": True, "false": False}.get(text, int(text) if text.isdecimal() else text)
            yield (*path, name), value


_DEFAULTS = dict(documented_defaults(StatefulSparkJobSpec))


@pytest.mark.parametrize("path", _DEFAULTS, ids=".".join)
def test_a_default_that_is_written_down_changes_nothing(path: tuple[str, ...]) -> None:
    written: dict[str, object] = {path[-1]: _DEFAULTS[path]}
    for part in reversed(path[:-1]):
        written = {part: written}
    spec = a_spec(executor={"instances": 1}) if path[0] == "executor" else a_spec()
    base = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    first = path[0]
    part = base.get(first)
    merged = {**base, first: {**part, **written[first]} if isinstance(part, dict) else written[first]}  # type: ignore[dict-item]

    assert revision.revision_of(StatefulSparkJobSpec.model_validate(merged)) == revision.revision_of(spec)


def test_most_defaults_are_documented() -> None:
    assert len(_DEFAULTS) > 15
