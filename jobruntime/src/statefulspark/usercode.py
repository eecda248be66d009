"""The border to the user's own code: what its calls raise becomes an error of its own, with the file and line. Pure.

Whose failure something is, only the type of the error tells: each call of the user's code stands alone in a `try`, and
`raised` makes a `UserCodeError` of what comes out. Everything else is ours, or Spark's. Tracebacks are read only to say
where: they are mostly Spark's and ours, and a person needs the file and line that they wrote, once.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from statefulspark import errors

REPORT_IT = "This is a failure of statefulspark or of what it runs on, not of the job's code; report it with the trace."
"""Ends the sentence about an error that is nobody's on purpose."""
CORRECT_IT = "Correct it and apply the job again."
_OUTSIDE: tuple[type[Exception], ...] = (OSError, MemoryError, EOFError)
"""What the machine and the connections to Spark raise; it says enough as it is."""
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


def raised(
    error: Exception, *, reason: str, called: str, file: str | None = None, advice: str = ""
) -> errors.StatefulSparkError:
    """Return the error for what a call of the user's code raised; errors of ours stay what they are.

    Args:
        error: Caught around that call and nothing else.
        reason: Of the new error.
        called: What was called, at the beginning of a sentence.
        file: The file whose line is told; any of the user's when omitted.
        advice: What to do, as a sentence.
    """
    if isinstance(error, errors.StatefulSparkError):
        return error
    frames = of_error(error)
    frame = next((one for one in reversed(frames) if file in (None, one.file)), None)
    place = f" ({frame.file} line {frame.line})" if frame else ""
    return made(
        error, reason=reason, message=f"{called} raised {in_one_line(error)}{place}{'. ' if advice else ''}{advice}"
    )


def made(error: BaseException, *, reason: str, message: str) -> errors.UserCodeError:
    """Return the error for what the user's code raised, with a sentence of the caller's."""
    frames = of_error(error)
    last = frames[-1] if frames else None
    failed = errors.UserCodeError(
        reason, message, raised=error, file=last.file if last else None, line=last.line if last else None
    )
    note_calls(failed, error)
    return failed


def note_calls(failed: Exception, error: BaseException) -> None:
    """Note the user's calls that an exception passed through in the one that takes its place.

    Spark sends the text of the last exception only, without what caused it; a note is part of that text.
    """
    frames = of_error(error)
    if frames:
        failed.add_note(f"Raised in the job's own code:\n{told(frames)}")


@contextlib.contextmanager
def ours(what: str, *, other_than: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Say that what the block raises by accident is ours; errors on purpose and those of the machine stay what they are.

    Args:
        what: What failed, at the beginning of a sentence.
        other_than: Kinds that stay what they are, too.

    Raises:
        InternalError: `Unexpected`.
    """
    kept: tuple[type[Exception], ...] = (errors.StatefulSparkError, *_OUTSIDE, *other_than)
    try:
        yield
    except Exception as error:
        if isinstance(error, kept):
            raise
        failed = errors.InternalError("Unexpected", f"{what} failed with {in_one_line(error)}.")
        failed.add_note("Raised at:\n" + "".join(traceback.format_tb(error.__traceback__)))
        raise failed from error


def in_one_line(error: BaseException) -> str:
    """Return an exception's class and the first line of its text; Spark adds whole plans and JVM stacks below that."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text.rstrip('.;:')}" if text else type(error).__name__


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
