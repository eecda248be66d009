"""The verbs that `checkpoint` and `savepoint` share: list, show, verify."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from statefulspark.cli import options, output, reading
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
        add_reference: Adds the argument that names a snapshot.
        find: Resolves that argument.
    """

    kind: SnapshotKind
    example: str
    listing: str
    verifying: str
    add_reference: Callable[[argparse.ArgumentParser], None]
    find: Callable[[argparse.Namespace], SnapshotFolder]


def add(verbs: options.SubParsers, noun: Noun) -> None:
    """Add the three verbs."""
    name = noun.kind.value
    parser = verbs.add_parser(
        "list",
        help=f"list completed {name}s, newest first",
        description=noun.listing,
        epilog=f"examples:\n  statefulspark {name} list --root {options.EXAMPLE_ROOT}\n"
        f"  statefulspark {name} list --root {options.EXAMPLE_ROOT} -o wide",
        formatter_class=options.Help,
    )
    output.add_flag(parser)
    options.add_root(parser)
    parser.set_defaults(handle=lambda args: reading.list_kind(args, noun.kind))
    parser = verbs.add_parser(
        "show",
        help=f"show everything about one {name}",
        description=f"Show everything about one {name}; -o wide lists its files, -o json and -o yaml print the manifest.",
        epilog=f"example:\n  statefulspark {name} show {noun.example}",
        formatter_class=options.Help,
    )
    noun.add_reference(parser)
    output.add_flag(parser)
    options.add_root(parser)
    parser.set_defaults(handle=lambda args: reading.show(*noun.find(args), args))
    parser = verbs.add_parser(
        "verify",
        help=f"check that every file of a {name} is there and unchanged",
        description=f"Check that every file of a {name} is there, with the size and checksum of its manifest."
        + noun.verifying,
        epilog=f"example:\n  statefulspark {name} verify {noun.example} --deep\n\n"
        f"exit codes:\n  0 complete   15 no such {name}   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    noun.add_reference(parser)
    parser.add_argument("--deep", action="store_true", help="read every file, instead of trusting equal etags")
    output.add_flag(parser)
    options.add_root(parser)
    parser.set_defaults(handle=lambda args: reading.verify_one(*noun.find(args), args))
