"""`statefulspark size`: asks what a job is like, and answers how large it has to be; the module `sizing` computes it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statefulspark import errors, sizing
from statefulspark.cli import options, output, tables, terminal, yaml_text
from statefulspark.contract.exit_codes import ExitCode
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
  0 answered   2 a flag is wrong, or no size fits
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
            raise argparse.ArgumentTypeError(
                f"{text!r} must be a number from {least:g} to {most:,.0f}, such as 250, 20k or 4M"
            )
        return value

    return read


def _whole(most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from 1 to a limit."""
    read = _number(most)
    return lambda text: round(read(text))


def _memory(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None or not 0 < int(match[1]) * _MEMORY_MIB[match[2]] <= 1 << 24:
        raise argparse.ArgumentTypeError(f"{text!r} must be an amount of memory such as 8Gi or 6000Mi, 16384Gi at most")
    return int(match[1]) * _MEMORY_MIB[match[2]]


def _interval(text: str) -> object:
    """Read a duration from 1 ms to a day."""
    value = options.duration(text)
    if not 0.001 <= value.total_seconds() <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} must be a time from 1ms to 24h")
    return value


def _restart(text: str) -> object:
    return None if text == "any" else _interval(text)


def _operator(text: str) -> sizing.StatefulOperator:
    try:
        return sizing.StatefulOperator(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(sizing.StatefulOperator)}") from error


_PRICES = sizing.Prices()
QUESTIONS = (
    Question("keys", "keys that have state at the same time", "NUMBER", _whole(workload.MAX_KEYS)),
    Question(
        "bytes-per-key", "bytes of state of a key, with the key: harness.stored_bytes of a test, divided by its keys",
        "BYTES", _whole(workload.MAX_BYTES_PER_KEY),
    ),
    Question("rows", "rows in a second, when most come", "NUMBER", _number(workload.MAX_ROWS_PER_S)),
    Question(
        "operator", "stateful operator: python (row by row), vectorized (numbers by integer key) or spark-sql (Spark's)",
        "OPERATOR", _operator, "python",
    ),
    Question("batch-interval", "time from batch to batch", "DURATION", _interval, "1s"),
    Question("checkpoint-interval", "time from checkpoint to checkpoint", "DURATION", _interval, "10s"),
    Question("retained", "checkpoints that are kept", "NUMBER", _whole(workload.MAX_RETAINED), "3"),
    Question("restart-within", "longest time that a restart may take, or any", "DURATION", _restart, "any"),
    Question("pod-memory", "memory that one pod may have", "MEMORY", _memory, "8Gi"),
    Question("pod-cores", "cores that one pod may have", "NUMBER", _whole(workload.MAX_POD_CORES), "4"),
)  # fmt: skip
"""What is asked, in order; the first three have no default."""


def add_parser(commands: options.SubParsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "size",
        help="how large a job has to be: partitions, pods, memory, storage, cost",
        description="Say how large a job has to be, from its keys, the bytes of each and its rows: partitions, key groups, "
        "pods and their memory, what is on the object store and what it costs, how long restarts and upgrades take, and "
        "which limit is reached first. Each figure says why, and whether a job of this size was measured. What is missing "
        "is asked for at a terminal. Nothing is read or changed.",
        epilog=_EPILOG,
        formatter_class=options.Help,
    )
    for question in QUESTIONS:
        default = f"; {question.default} when omitted" if question.default is not None else ""
        parser.add_argument(
            f"--{question.flag}", type=question.read, metavar=question.metavar, help=f"{question.text}{default}"
        )
    measures = parser.add_argument_group(
        "your own figures", "Prices are those of S3 Standard in us-east-1, September 2026."
    )
    measures.add_argument(
        "--rows-per-core", type=_number(workload.MAX_ROWS_PER_S), metavar="NUMBER",
        help="rows that a core of yours does in a second, instead of what was measured on ours",
    )  # fmt: skip
    for flag, price, what in (
        ("storage", _PRICES.storage_gb_month, "a GB and month"),
        ("write", _PRICES.write_per_thousand, "1,000 requests that write, copy or list"),
        ("read", _PRICES.read_per_thousand, "1,000 requests that read"),
    ):
        measures.add_argument(
            f"--price-{flag}", type=_number(1e6, least=0), default=price, metavar="DOLLARS",
            help=f"dollars for {what}; {price:g} when omitted",
        )  # fmt: skip
    parser.add_argument("--spec", action="store_true", help="print only the fields of the resource, as YAML")
    output.add_flag(parser)
    parser.set_defaults(handle=_size)


def _size(args: argparse.Namespace) -> int:
    given = {question.field: getattr(args, question.field) for question in QUESTIONS}
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
            operator=answers["operator"],
            batch_interval=answers["batch_interval"],
            checkpoint_interval=answers["checkpoint_interval"],
            retained=answers["retained"],
            restart_within=answers["restart_within"],
            pod_memory_mib=answers["pod_memory"],
            pod_cores=answers["pod_cores"],
            rows_per_core=args.rows_per_core,
            prices=sizing.Prices(args.price_storage, args.price_write, args.price_read),
        )
    )
    if args.spec:
        terminal.write(yaml_text.dump({"spec": answer.spec}))
    else:
        output.write(report(answer), args.output)
    return ExitCode.FINISHED


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
        except argparse.ArgumentTypeError as error:
            terminal.note(f"  {error}")


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
