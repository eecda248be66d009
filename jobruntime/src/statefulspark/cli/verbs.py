"""The verbs that `checkpoint` and `savepoint` share: list, show, verify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from statefulspark.cli import options, reading
from statefulspark.commandline import output
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.storage import ObjectStore

SnapshotFolder = tuple[ObjectStore, str]
"""A store, and a snapshot's folder below it."""


@dataclass(frozen=True, slots=True)
class Noun:
    """The noun of a command: checkpoint or savepoint.

    Attributes:
        kind: Checkpoint or savepoint.
        example: A reference to one, for examples.
        listing: The description of `list`.
        verifying: An addition to the description of `verify`; may be empty.
        metavar: The name of the argument that names a snapshot.
        meaning: The help of that argument.
        read: The type of that argument.
        find: Resolves that argument.
    """

    kind: SnapshotKind
    example: str
    listing: str
    verifying: str
    metavar: str
    meaning: str
    read: Any
    find: Callable[[Any, options.JobFolder], SnapshotFolder]


def add(group: click.Group, noun: Noun) -> None:
    """Add the three verbs."""
    name = noun.kind.value
    reference = click.argument("reference", metavar=noun.metavar, type=noun.read, help=noun.meaning)

    @group.command(
        "list",
        short_help=f"list completed {name}s, newest first",
        help=noun.listing,
        epilog=f"examples:\n  statefulspark {name} list --storage {options.EXAMPLE_STORAGE}\n"
        f"  statefulspark {name} list --storage {options.EXAMPLE_STORAGE} -o wide",
    )
    @output.options
    @options.job_folder
    def list_(printing: output.Printing, job_folder: options.JobFolder) -> None:
        reading.list_kind(job_folder, noun.kind, printing)

    @group.command(
        "show",
        short_help=f"show everything about one {name}",
        help=f"Show everything about one {name}; -o wide lists its files, -o json and -o yaml print the manifest.",
        epilog=f"example:\n  statefulspark {name} show {noun.example}",
    )
    @reference
    @output.options
    @options.job_folder
    def show(reference: object, printing: output.Printing, job_folder: options.JobFolder) -> None:
        reading.show(*noun.find(reference, job_folder), printing)

    @group.command(
        "verify",
        short_help=f"check that every file of a {name} is there and unchanged",
        help=f"Check that every file of a {name} is there, with the size and checksum of its manifest."
        + noun.verifying,
        epilog=f"example:\n  statefulspark {name} verify {noun.example} --deep\n\n"
        f"exit codes:\n  0 complete   15 no such {name}   16 storage unavailable   17 broken",
    )
    @reference
    @click.option("--deep", is_flag=True, help="read every file, instead of trusting equal etags")
    @output.options
    @options.job_folder
    def verify(reference: object, deep: bool, printing: output.Printing, job_folder: options.JobFolder) -> int:
        return reading.verify_one(*noun.find(reference, job_folder), printing, deep=deep)
