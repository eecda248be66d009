"""`statefulspark size`: asks what a job is like, and answers how large it has to be; the module `sizing` computes it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from statefulspark import errors, sizing
from statefulspark.commandline import commands, output, tables, terminal, values, yaml_text
from statefulspark.sizing import workload

_EPILOG = """\
examples:
  Be asked, at a terminal:
    statefulspark size

  All at once, with the reasons left out:
    statefulspark size --keys 4M --bytes-per-key 110 --rows 20k --restart-within 1m

  Only what goes into the resource:
    statefulspark size --keys 4M --bytes-per-key 110 --rows 20k --spec

exit codes:
  0 answered   2 an option is wrong, or no size fits
"""
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)([kMG]?)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_MEMORY = re.compile(r"([0-9]+)(Mi|Gi)")
_MEMORY_MIB = {"Mi": 1, "Gi": 1024}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the flag that answers it beforehand.

    Attributes:
        flag: The flag, without its dashes.
        text: What is asked.
        metavar: What the answer looks like.
        read: Reads the answer.
        default: The answer if there is none, as it is typed; None if there has to be one.
    """

    flag: str
    text: str
    metavar: str
    read: Callable[[str], object]
    default: str | None = None

    @property
    def field(self) -> str:
        """The name among the arguments."""
        return self.flag.replace("-", "_")


def _number(most: float, least: float = 1) -> Callable[[str], float]:
    """Return a reader of numbers like 250, 4M or 1.5k, between two limits."""

    def read(text: str) -> float:
        match = _NUMBER.fullmatch(text)
        value = float(match[1]) * _FACTORS[match[2]] if match else None
        if value is None or not least <= value <= most:
            raise click.BadParameter(f"{text!r} must be a number from {least:g} to {most:,.0f}, such as 250, 20k or 4M")
        return value

    return read


def _whole(most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from 1 to a limit."""
    read = _number(most)
    return lambda text: round(read(text))


def _memory(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None or not 0 < int(match[1]) * _MEMORY_MIB[match[2]] <= 1 << 24:
        raise click.BadParameter(f"{text!r} must be an amount of memory such as 8Gi or 6000Mi, 16384Gi at most")
    return int(match[1]) * _MEMORY_MIB[match[2]]


def _interval(text: str) -> object:
    """Read a duration from 1 ms to a day."""
    value = values.DURATION(text)
    if not 0.001 <= value.total_seconds() <= 86_400:
        raise click.BadParameter(f"{text!r} must be a time from 1ms to 24h")
    return value


def _restart(text: str) -> object:
    return None if text == "any" else _interval(text)


def _operator(text: str) -> sizing.StatefulOperator:
    try:
        return sizing.StatefulOperator(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} must be one of {', '.join(sizing.StatefulOperator)}") from error


_PRICES = sizing.Prices()
_FIGURES = "Your own figures (prices are those of S3 Standard in us-east-1, September 2026)"
QUESTIONS = (
    Question("keys", "keys that have state at the same time", "NUMBER", _whole(workload.MAX_KEYS)),
    Question(
        "bytes-per-key", "bytes of state of a key, with the key: harness.stored_bytes of a test, divided by its keys",
        "BYTES", _whole(workload.MAX_BYTES_PER_KEY),
    ),
    Question("rows", "rows in a second, when most come", "NUMBER", _number(workload.MAX_ROWS_PER_S)),
    Question(
        "operator-kind", "stateful operators: python (row by row), vectorized (numbers by integer key) or spark (Spark's)",
        "KIND", _operator, "python",
    ),
    Question("batch-interval", "time from batch to batch", "DURATION", _interval, "1s"),
    Question("checkpoint-interval", "time from checkpoint to checkpoint", "DURATION", _interval, "10s"),
    Question("checkpoint-retention-count", "checkpoints that are kept", "N", _whole(workload.MAX_RETAINED), "3"),
    Question("restart-within", "longest time that a restart may take, or any", "DURATION", _restart, "any"),
    Question("pod-memory", "memory that one pod may have", "MEMORY", _memory, "8Gi"),
    Question("pod-cores", "cores that one pod may have", "NUMBER", _whole(workload.MAX_POD_CORES), "4"),
)  # fmt: skip
"""What is asked, in order; the first three have no default."""


def _help(question: Question) -> str:
    return question.text if question.default is None else f"{question.text}; {question.default} when omitted"


_options = commands.together(
    *(
        commands.option(f"--{question.flag}", type=question.read, metavar=question.metavar, help=_help(question))
        for question in QUESTIONS
    ),
    commands.option("--rows-per-core", type=_number(workload.MAX_ROWS_PER_S), metavar="NUMBER", section=_FIGURES,
                    help="rows that a core of yours does in a second, instead of what was measured on ours"),
    *(
        commands.option(f"--price-{flag}", type=_number(1e6, least=0), default=f"{price:g}", show_default=True,
                        metavar="DOLLARS", section=_FIGURES, help=f"dollars for {what}")
        for flag, price, what in (
            ("storage", _PRICES.storage_gb_month, "a GB and month"),
            ("write", _PRICES.write_per_thousand, "1,000 requests that write, copy or list"),
            ("read", _PRICES.read_per_thousand, "1,000 requests that read"),
        )
    ),
    commands.option("--spec", is_flag=True, help="print only the fields of the resource, as YAML"),
)  # fmt: skip


@click.command(
    "size",
    cls=commands.Command,
    short_help="how large a job has to be: partitions, pods, memory, storage, cost",
    help="Say how large a job has to be, from its keys, the bytes of each and its rows: partitions, key groups, pods and "
    "their memory, what is on the object store and what it costs, how long restarts and upgrades take, and which limit is "
    "reached first. Each figure says why, and whether a job of this size was measured. What is missing is asked for at a "
    "terminal. Nothing is read or changed.",
    epilog=_EPILOG,
)
@_options
@output.options
def command(printing: output.Printing, **given: Any) -> None:  # noqa: ANN401 -- the values of the options
    """Run the command."""
    missing = [question for question in QUESTIONS if question.default is None and given[question.field] is None]
    if missing and not sys.stdin.isatty():
        flags = ", ".join(f"--{question.flag}" for question in missing)
        raise errors.SpecRejectedError(
            "SizeUnknown", f"A size needs {flags}: give it, or run the command at a terminal."
        )
    answers: dict[str, Any] = {}
    for question in QUESTIONS:
        answers[question.field] = given[question.field]
        if answers[question.field] is None:
            answers[question.field] = _ask(question) if missing else question.read(question.default or "")
    answer = sizing.answer(
        sizing.Workload(
            keys=answers["keys"],
            bytes_per_key=answers["bytes_per_key"],
            rows_per_s=answers["rows"],
            operator=answers["operator_kind"],
            batch_interval=answers["batch_interval"],
            checkpoint_interval=answers["checkpoint_interval"],
            retained=answers["checkpoint_retention_count"],
            restart_within=answers["restart_within"],
            pod_memory_mib=answers["pod_memory"],
            pod_cores=answers["pod_cores"],
            rows_per_core=given["rows_per_core"],
            prices=sizing.Prices(given["price_storage"], given["price_write"], given["price_read"]),
        )
    )
    if given["spec"]:
        terminal.write(yaml_text.dump({"spec": answer.spec}))
    else:
        printing.write(report(answer))


def _ask(question: Question) -> object:
    """Ask at the terminal until there is an answer; an empty one is the default."""
    shown = f" [{question.default}]" if question.default is not None else ""
    while True:
        terminal.note(f"{question.text}{shown}?")
        line = sys.stdin.readline()
        if not line:
            raise errors.SpecRejectedError(
                "SizeUnknown", f"A size needs --{question.flag}: the input ended before it came."
            )
        try:
            return question.read(line.strip() or question.default or "")
        except click.BadParameter as error:
            terminal.note(f"  {error.message}")


def report(answer: sizing.SizeAnswer) -> output.Result:
    """Return an answer as a result; wide output says what to do at each limit."""

    def draw(wide: bool) -> str:
        rows = [(figure.name, figure.shown, figure.certainty.value, figure.why) for figure in answer.figures]
        limits = [
            (limit.name, f"{limit.factor:,.2f} times", limit.what_then if wide else "") for limit in answer.limits
        ]
        first = answer.limits[0]
        return "\n".join(
            (
                tables.columns(("FIGURE", "VALUE", "CERTAINTY", "WHY"), rows),
                tables.columns(
                    ("LIMIT", "HOLDS", "WHAT THEN")[: 3 if wide else 2], [row[: 3 if wide else 2] for row in limits]
                ),
                f"First to be reached: {first.name}. {first.what_then}\n",
                "".join(f"{note}\n" for note in answer.notes),
                yaml_text.dump({"spec": answer.spec}),
            )
        )

    return output.Result(answer, [f"{figure.name}/{figure.value}" for figure in answer.figures], draw)
