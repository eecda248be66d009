"""Finds the fields of a document that a model does not have, and the known fields that they may stand for. Pure.

A reader ignores unknown fields, since another release may have written them. A person has no other release in mind: a field
that is not known is a mistake, and would have no effect without a word.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def find(model: type[BaseModel], document: object, prefix: str = "") -> Iterator[str]:
    """Yield the path of each field that a model does not have, for example `storage.region`.

    Args:
        model: The model.
        document: JSON that may be read as the model.
        prefix: Path of the document in a larger one, with a dot at its end.
    """
    if not isinstance(document, dict):
        return
    fields = {
        name: field for attribute, field in model.model_fields.items() for name in (attribute, _name(attribute, field))
    }
    for name, value in document.items():
        field = fields.get(name)
        nested = None if field is None else _nested(field)
        if field is None:
            yield f"{prefix}{name}"
        elif nested is not None:
            yield from find(nested, value, f"{prefix}{name}.")


def nearest(model: type[BaseModel], path: str) -> str | None:
    """Return the known field that a path may stand for: of the same name elsewhere, or with a like name in the same place.

    Args:
        model: The model.
        path: The path of a field that it does not have.
    """
    place, _, name = path.rpartition(".")
    known = [field.rpartition(".") for field in _paths(model)]
    elsewhere = ["".join(parts) for parts in known if parts[2] == name]
    beside = ["".join(parts) for parts in known if parts[0] == place]
    below = [field for field in elsewhere if field.startswith(f"{place}.")]
    cutoff = 0.0 if elsewhere else 0.75
    return next(iter(difflib.get_close_matches(path, below or elsewhere or beside, n=1, cutoff=cutoff)), None)


def _paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for attribute, field in model.model_fields.items():
        name, nested = f"{prefix}{_name(attribute, field)}", _nested(field)
        yield name
        if nested is not None:
            yield from _paths(nested, f"{name}.")


def _name(attribute: str, field: FieldInfo) -> str:
    return field.serialization_alias or field.alias or attribute


def _nested(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field; None if its value is no model."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
