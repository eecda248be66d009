"""Where in the user's own code something was raised: from an exception, or from the text of one that a worker sent. Pure.

A traceback is mostly Spark's and ours. A person needs the file and line that they wrote, once.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_OURS = f"{Path(__file__).parent}/"
_ENGINES = re.compile(r"^<|[/\\](?:pyspark|py4j[^/\\]*|cloudpickle)(?:\.zip)?[/\\]")
_ANY_PYTHONS = re.compile(r"[/\\]lib[/\\]python3[.\d]*[/\\](?!(?:site|dist)-packages)")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_OURS_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]statefulspark[/\\]")
_FRAME = re.compile(
    r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>[^\n]+)(?=(?:\n(?P<source>[^\n]*))?)', re.MULTILINE
)
_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Frame:
    """One call in a traceback.

    Attributes:
        file: Its file.
        line: Line in the file.
        name: The function.
        source: The line's text; empty where it is not known.
    """

    file: str
    line: int
    name: str
    source: str = ""

    @property
    def place(self) -> str:
        """File, line and function, for a sentence."""
        return f"{self.file}:{self.line} in {self.name}"


def of_error(error: BaseException) -> tuple[Frame, ...]:
    """Return the calls in the user's code that an exception passed through, outermost first; none if there are none."""
    found = traceback.extract_tb(error.__traceback__)
    return _users(Frame(one.filename, one.lineno or 0, one.name, one.line or "") for one in found)


def in_text(text: str) -> tuple[Frame, ...]:
    """Return the calls in the user's code that the text of an exception names, each once, in its order."""
    found = (
        Frame(match["file"], int(match["line"]), match["name"].strip(), _source(match["source"] or ""))
        for match in _FRAME.finditer(text)
    )
    return _users(dict.fromkeys(found))


def told(frames: Iterable[Frame]) -> str:
    """Return calls as Python prints them, a line or two each."""
    lines = []
    for frame in frames:
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
        lines += [f"    {frame.source}"] if frame.source else []
    return "\n".join(lines)


def _users(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Leave out what is Spark's, ours and Python's, and libraries, unless the user's code is installed like one."""
    candidates = [frame for frame in frames if not _is_foreign(frame.file)]
    own = [frame for frame in candidates if _INSTALLED.search(frame.file) is None]
    return tuple(own or candidates)[-_LIMIT:]


def _is_foreign(file: str) -> bool:
    foreign = (_ENGINES, _ANY_PYTHONS, _OURS_INSTALLED)
    return file.startswith(_OURS) or any(pattern.search(file) is not None for pattern in foreign)


def _source(line: str) -> str:
    """Return the line below a frame if it is source: anything else is another frame, a marker or the error."""
    bare = line.strip()
    return bare if line.startswith("    ") and not bare.startswith(("File ", "^", "~")) else ""
