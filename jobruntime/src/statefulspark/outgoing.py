"""Text that leaves the process: without the values of secrets, and for a terminal without what would command it.

Errors of other systems and of the job's code may repeat what they were given. Nobody can check each of them, so each door of
the process (log, exit report, API) sends its text through here. It knows the values that this process has revealed, and
nothing of other ones.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict

_SHORTEST = 8
"""Characters: the value of a shorter secret is a part of many other words."""
_MOST_VALUES = 1000
"""Values are forgotten from the oldest on: rotated ones come without end."""
_IN_PLACE = "***"
_OWN_COLOUR = re.compile("(\033\\[[0-9]{1,2}m)")
"""A colour, and the end of one: the only command of a terminal that a text of the product has."""
_LAYOUT = "\n\t"
_lock = threading.Lock()
_values: OrderedDict[str, None] = OrderedDict()


def keep_out(value: str | None) -> None:
    """Take the value of a secret out of all text that leaves the process from now on; short ones stay.

    Args:
        value: The value; nothing happens without one.
    """
    if value is None or len(value) < _SHORTEST:
        return
    quoted = (value, repr(value)[1:-1])
    forms = {*quoted, *(json.dumps(form, ensure_ascii=is_ascii)[1:-1] for form in quoted for is_ascii in (True, False))}
    with _lock:
        for form in forms:
            _values[form] = None
            _values.move_to_end(form)
        while len(_values) > _MOST_VALUES:
            _values.popitem(last=False)


def without_secrets(text: str) -> str:
    """Return a text with three asterisks in place of each value that `keep_out` was told."""
    with _lock:
        values = [value for value in _values if value in text]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, _IN_PLACE)
    return text


def printable(text: str) -> str:
    """Return a text without what would move the cursor of a terminal, or change or ask it anything; colours stay.

    Names, messages and state may come from anybody who can write to a bucket or create a job.
    """
    if text.isprintable():
        return text
    parts = _OWN_COLOUR.split(text)
    # Every second part is a colour.
    return "".join(part if number % 2 else _plain(part) for number, part in enumerate(parts))


def join_lines(text: str) -> str:
    """Return a text as one line, without commands of a terminal and without colours."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter in _LAYOUT else " " for letter in text)
