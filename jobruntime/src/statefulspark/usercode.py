"""Translates exceptions of the user's code to `UserCodeError`, with the file and line. Pure.

Only the type of an error tells whose failure it is: each call of the user's code stands alone in a `try`, and `raised`
translates its exception. Every other exception comes from the product or from Spark. Tracebacks are read only to find the
file and line: most of their frames belong to Spark and to the product, and a person needs their own line, once.
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
"""Last sentence of the message of an unexpected error."""
CORRECT_IT = "Correct it and apply the job again."
_ENVIRONMENT_ERRORS: tuple[type[Exception], ...] = (OSError, MemoryError, EOFError)
"""Errors of the machine and of the connections to Spark, which need no translation."""
_PRODUCT_FOLDER = f"{Path(__file__).parent}/"
_ENGINES = re.compile(r"^<|[/\\](?:pyspark|py4j[^/\\]*|cloudpickle)(?:\.zip)?[/\\]")
_STANDARD_LIBRARY = re.compile(r"[/\\]lib[/\\]python3[.\d]*[/\\](?!(?:site|dist)-packages)")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_PRODUCT_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]statefulspark[/\\]")
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
        source: The line's text; empty if unknown.
    """

    file: str
    line: int
    name: str
    source: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the file belongs to a library that is installed."""
        return _INSTALLED.search(self.file) is not None

    @property
    def location(self) -> str:
        """File, line and function, for a sentence."""
        return f"{self.file}:{self.line} in {self.name}"


def raised(error: BaseException, *, reason: str, called: str, advice: str = "") -> errors.StatefulSparkError:
    """Return the error for an exception of a call of the user's code; a StatefulSparkError is returned unchanged.

    Args:
        error: The exception of that call.
        reason: The reason of the new error.
        called: The call, as the beginning of a sentence.
        advice: What to do, as a sentence.
    """
    if isinstance(error, errors.StatefulSparkError):
        return error
    frames = find_frames(error)
    location = f" ({frames[-1].file} line {frames[-1].line})" if frames else ""
    return user_code_error(
        error, reason=reason, message=f"{called} raised {format_error(error)}{location}{'. ' if advice else ''}{advice}"
    )


def user_code_error(error: BaseException, *, reason: str, message: str) -> errors.UserCodeError:
    """Return the error for an exception of the user's code, with the given message."""
    frames = find_frames(error)
    last = frames[-1] if frames else None
    failed = errors.UserCodeError(
        reason, message, raised=error, file=last.file if last else None, line=last.line if last else None
    )
    note_calls(failed, error)
    return failed


def note_calls(failed: Exception, error: BaseException) -> None:
    """Add the user's calls of an exception to the exception that replaces it, as a note.

    Spark sends only the text of the last exception, without its cause; a note is part of that text.
    """
    frames = find_frames(error)
    if frames:
        failed.add_note(f"Raised in the job's own code:\n{format_frames(frames)}")


@contextlib.contextmanager
def as_internal_error(what: str, *, other_than: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Translate unexpected exceptions of the block to InternalError.

    A StatefulSparkError and errors of the machine (`_ENVIRONMENT_ERRORS`) pass unchanged.

    Args:
        what: What failed, as the beginning of a sentence.
        other_than: Further types that pass unchanged.

    Raises:
        InternalError: `Unexpected`.
    """
    unchanged: tuple[type[Exception], ...] = (errors.StatefulSparkError, *_ENVIRONMENT_ERRORS, *other_than)
    try:
        yield
    except Exception as error:
        if isinstance(error, unchanged):
            raise
        failed = errors.InternalError("Unexpected", f"{what} failed with {format_error(error)}.")
        failed.add_note("Raised at:\n" + "".join(traceback.format_tb(error.__traceback__)))
        raise failed from error


def format_error(error: BaseException) -> str:
    """Return an exception's class and the first line of its text; Spark adds whole plans and JVM stacks below that."""
    # Half a surrogate is no Unicode; the messages of errors have it by its number, too.
    whole = str(error).encode(errors="backslashreplace").decode()
    text = next((line.strip() for line in whole.splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text.rstrip('.;:')}" if text else type(error).__name__


def find_frames(error: BaseException) -> tuple[Frame, ...]:
    """Return the calls in the user's code that an exception passed through, outermost first; may be empty."""
    summaries = traceback.extract_tb(error.__traceback__)
    return _job_frames(
        Frame(summary.filename, summary.lineno or 0, summary.name, summary.line or "") for summary in summaries
    )


def parse_frames(text: str) -> tuple[Frame, ...]:
    """Return the calls in the user's code that the text of an exception names, each once, in the order of the text."""
    frames = (
        Frame(match["file"], int(match["line"]), match["name"].strip(), _source(match["source"] or ""))
        for match in _FRAME.finditer(text)
    )
    return _job_frames(dict.fromkeys(frames))


def format_frames(frames: Iterable[Frame]) -> str:
    """Return frames as Python prints them, one or two lines each."""
    lines = []
    for frame in frames:
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
        lines += [f"    {frame.source}"] if frame.source else []
    return "\n".join(lines)


def _job_frames(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Drop frames of Spark, the product, Python and libraries; library frames stay if there are no others."""
    candidates = [frame for frame in frames if not _is_foreign(frame.file)]
    own = [frame for frame in candidates if not frame.is_installed]
    return tuple(own or candidates)[-_LIMIT:]


def _is_foreign(file: str) -> bool:
    foreign = (_ENGINES, _STANDARD_LIBRARY, _PRODUCT_INSTALLED)
    return file.startswith(_PRODUCT_FOLDER) or any(pattern.search(file) is not None for pattern in foreign)


def _source(line: str) -> str:
    """Return the line below a frame if it is source code, and not another frame, a marker or the error."""
    bare = line.strip()
    return bare if line.startswith("    ") and not bare.startswith(("File ", "^", "~")) else ""
