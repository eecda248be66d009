"""Flags that several commands share: the job's root on storage, and the driver's address."""

from __future__ import annotations

import argparse
import ast
import os
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from statefulspark import durations, errors, launch, storage
from statefulspark.cli import api_client
from statefulspark.contract import config, layout
from statefulspark.storage import ObjectStore, StorageOptions, authorities

DEFAULT_URL = "http://127.0.0.1:8090"
EXAMPLE_ROOT = "s3://bucket/prefix/default/words"
SubParsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Help(argparse.RawDescriptionHelpFormatter):
    """Wraps descriptions and keeps the lines of epilogs, which hold examples."""

    def __init__(self, prog: str, width: int | None = None) -> None:
        """Leave room for the longest flag next to its help."""
        super().__init__(prog, max_help_position=32, width=width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the object store's connection."""
    group = parser.add_argument_group("storage", "Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    group.add_argument("--endpoint", metavar="URL", help="S3-compatible server; AWS_ENDPOINT_URL when omitted")
    group.add_argument("--region", help="region for signing; AWS_REGION when omitted")
    group.add_argument(
        "--storage-ca", metavar="FILE",
        help="for an https:// endpoint: the authority of its certificate, in PEM, which is trusted beside those of this "
        f"machine; {authorities.ENV} when omitted",
    )  # fmt: skip
    group.add_argument(
        "--allow-local-files", action="store_true",
        help="permit file:// locations; for development on one machine",
    )  # fmt: skip


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add `--root` and the flags of its connection."""
    parser.add_argument(
        "--root", metavar="URI",
        help="the job's folder, <storage uri>/<namespace>/<job>; inside a driver's pod its own job when omitted",
    )  # fmt: skip
    add_development(parser)
    add_connection(parser)


def add_development(parser: argparse.ArgumentParser) -> None:
    """Add `--dev FILE`."""
    parser.add_argument(
        "--dev", dest="developed", type=Path, metavar="FILE",
        help="a job file instead: the state that `run FILE --dev` and `python FILE` keep",
    )  # fmt: skip


def development_root(file: Path) -> str:
    """Return the URI of the folder of a job that is developed on this machine.

    Raises:
        SpecRejectedError: As `declared_name`, and `SnapshotNotFound`: the job has not run here.
    """
    name = declared_name(file)
    state = launch.development_folder(file.absolute().parent)
    folder = state / layout.job_prefix(config.DEFAULT_NAMESPACE, name)
    if not folder.is_dir():
        raise errors.SpecRejectedError(
            "SnapshotNotFound", f"The job {name} of {file} has kept no state in {state}; run it with --dev first."
        )
    return folder.as_uri()


def add_driver(parser: argparse.ArgumentParser) -> None:
    """Add the driver's address, its certificate's authority and the token."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"the driver's API, {DEFAULT_URL} when omitted")
    parser.add_argument("--ca", metavar="FILE", help="for an https:// url: the authority that issued the driver's "
                        "certificate, in PEM; those of this machine when omitted")  # fmt: skip
    parser.add_argument("--server-name", metavar="NAME", help="for an https:// url: the name in the driver's certificate, "
                        "for example words-driver.default.svc through a port-forward; the url's when omitted")  # fmt: skip
    parser.add_argument("--token", help=f"the job's token; {config.ENV_TOKEN} when omitted, which keeps it out of `ps`")


def open_root(args: argparse.Namespace) -> ObjectStore:
    """Return the store rooted at the job's folder.

    Raises:
        SpecRejectedError: `RootMissing`: neither a flag nor a configuration names it.
    """
    root: str | None = args.root if args.developed is None else development_root(args.developed)
    if root is not None:
        return open_location(root, args)
    path = os.environ.get(config.ENV_CONFIG)
    if path is None:
        raise errors.SpecRejectedError(
            "RootMissing",
            "Name the job's folder: --root s3://bucket/prefix/<namespace>/<job>, or --dev FILE for what "
            "`statefulspark run FILE --dev` keeps.",
        )
    job = launch.read_config(Path(path))
    s3 = job.storage.s3
    options = StorageOptions.from_env(
        endpoint=args.endpoint or s3.endpoint,
        region=args.region or s3.region,
        path_style=s3.addressing is config.Addressing.PATH,
        allow_local_files=args.allow_local_files or job.storage.allow_local_files,
        ca_file=args.storage_ca or s3.ca_file,
    )
    return storage.open_store(f"{job.storage.uri}/{layout.job_prefix(job.namespace, job.name)}", options)


def open_location(uri: str, args: argparse.Namespace) -> ObjectStore:
    """Return the store rooted at any location."""
    return storage.open_store(uri.rstrip("/"), storage_options(args))


def storage_options(args: argparse.Namespace) -> StorageOptions:
    """Return the connection options of the object store."""
    allow_local_files = args.allow_local_files or getattr(args, "developed", None) is not None
    return StorageOptions.from_env(
        endpoint=args.endpoint, region=args.region, allow_local_files=allow_local_files, ca_file=args.storage_ca
    )


def open_driver(args: argparse.Namespace) -> api_client.ApiClient:
    """Return a client of the driver.

    Raises:
        SpecRejectedError: `CaInvalid`, `TokenMissing` or `UrlInvalid`.
    """
    token: str | None = args.token or os.environ.get(config.ENV_TOKEN)
    if not token:
        raise errors.SpecRejectedError(
            "TokenMissing", f"The driver at {args.url} needs the job's token: set {config.ENV_TOKEN}, or pass --token."
        )
    return api_client.ApiClient(args.url, token, authority=args.ca, server_name=args.server_name)


def duration(text: str) -> timedelta:
    """Read a flag that is a duration."""
    try:
        return durations.parse(text)
    except errors.SpecRejectedError as error:
        raise argparse.ArgumentTypeError(error.message.rstrip(".")) from error


def key_value(text: str) -> tuple[str, str]:
    """Read a flag of the form `name=value`; the value may be empty and may contain `=`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} must have the form name=value")
    return name, value


def declared_name(file: Path) -> str:
    """Return the name in the file's `Job("...")`, without running it.

    Raises:
        SpecRejectedError: `JobFileMissing`, or `NameMissing` if no call has a literal name.
        UserCodeError: `JobFileRaised`: it is no Python.
    """
    names = []
    for node in ast.walk(launch.parse(file)):
        match node:
            case ast.Call(
                func=ast.Name(id="Job") | ast.Attribute(attr="Job"), args=[ast.Constant(value=str(name)), *_]
            ):
                names.append(name)
            case _:
                pass
    if len(names) != 1:
        raise errors.SpecRejectedError(
            "NameMissing", f'The job file {file} holds {len(names)} calls like Job("name"); name the job with --name.'
        )
    return names[0]
