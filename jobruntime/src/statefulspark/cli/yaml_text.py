"""Writes JSON-shaped values as YAML: what `-o yaml` prints. Pure.

Block style, two blanks per level, keys in the order given. Every text that YAML could read as something else is quoted as
in JSON, which YAML contains. There is nothing else to write here, so the job image needs no YAML library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "nan", "inf", "y", "n"})


def dump(value: object) -> str:
    """Return a value as YAML, ending with a newline.

    Args:
        value: None, booleans, numbers, texts, and sequences and mappings of them; keys are texts.
    """
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key))}:", item)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for item in value:
            yield from _item(item)
    else:
        yield _scalar(value)


def _entry(head: str, item: object) -> Iterator[str]:
    if _is_flat(item):
        yield f"{head} {_scalar(item)}"
        return
    yield head
    yield from (f"  {line}" for line in _lines(item))


def _item(item: object) -> Iterator[str]:
    for number, line in enumerate(_lines(item)):
        yield f"  {line}" if number else f"- {line}"


def _is_flat(value: object) -> bool:
    return isinstance(value, str) or not isinstance(value, Mapping | Sequence) or not value


def _scalar(value: object) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if is_plain else _quoted(value)
    text = json.dumps(value)
    # YAML 1.1 takes 1e-05 for a text.
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text


def _quoted(text: str) -> str:
    """Quote as JSON does, and escape every character that does not print, as YAML does beyond 16 bits."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else _escaped(ord(one)) for one in quoted)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
