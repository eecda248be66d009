"""Options that several commands share: where a job's state is, and where its driver is."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statefulspark import errors, launch, storage
from statefulspark.commandline import commands
from statefulspark.contract import config, layout
from statefulspark.storage import ObjectStore, StorageOptions, authorities

if TYPE_CHECKING:
    from statefulspark.cli.api_client import ApiClient

DEFAULT_URL = "http://127.0.0.1:8090"
EXAMPLE_STORAGE = "s3://bucket/prefix --job default/words"
_SECTION = "Storage (credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
_DRIVER = "Driver"


@dataclass(frozen=True, slots=True)
class StorageAccess:
    """The connection to an object store.

    Attributes:
        endpoint: An S3-compatible server.
        region: The region for signing.
        storage_ca: File with the authority of the server's certificate.
        allow_local_files: Whether file:// locations are permitted.
    """

    endpoint: str | None
    region: str | None
    storage_ca: str | None
    allow_local_files: bool

    def settings(self) -> StorageOptions:
        """Return the options of the object store."""
        return StorageOptions.from_env(
            endpoint=self.endpoint,
            region=self.region,
            ca_file=self.storage_ca,
            allow_local_files=self.allow_local_files,
        )

    def open(self, uri: str) -> ObjectStore:
        """Return the store rooted at any location."""
        return storage.open_store(uri.rstrip("/"), self.settings())


@dataclass(frozen=True, slots=True)
class JobFolder(StorageAccess):
    """Where the state of a job is.

    Attributes:
        storage: URI of a folder on storage.
        job: The job below it, as `namespace/name`.
        dev: Whether it is the folder that a job under development has here.
    """

    storage: str | None
    job: str | None
    dev: bool

    def settings(self) -> StorageOptions:
        """Return the options of the object store."""
        return replace(StorageAccess.settings(self), allow_local_files=self.allow_local_files or self.dev)

    def uri(self) -> str | None:
        """Return the URI of the folder that the options name; None if they name none.

        Raises:
            SpecRejectedError: `JobInvalid`, or `SnapshotNotFound`: no job was developed here.
        """
        folder = self.storage
        if self.dev:
            state = launch.development_folder(Path.cwd())
            if not state.is_dir():
                raise errors.SpecRejectedError(
                    "SnapshotNotFound",
                    f"There is no {state}: change to the folder of a job file that has run with --dev.",
                )
            folder = state.as_uri()
        if folder is None or self.job is None:
            return folder
        namespace, separator, name = self.job.partition("/")
        if not separator or not namespace or not name or "/" in name:
            raise errors.SpecRejectedError("JobInvalid", f"The job {self.job!r} must look like default/words.")
        return f"{folder.rstrip('/')}/{layout.job_prefix(namespace, name)}"

    def open_job(self) -> ObjectStore:
        """Return the store rooted at the job's folder.

        Raises:
            SpecRejectedError: As `uri`, and `StorageMissing`: neither an option nor a configuration names it, or
                `JobMissing`: several jobs were developed here.
        """
        uri = self.uri()
        if uri is None:
            return self._open_configured()
        store = self.open(uri)
        if not self.dev or self.job is not None:
            return store
        from statefulspark import doctor

        jobs = doctor.jobs_below(store)
        if len(jobs) != 1:
            raise errors.SpecRejectedError(
                "JobMissing", f"The jobs at {uri} are {', '.join(jobs) or 'none'}; name one with --job."
            )
        return self.open(f"{uri}/{jobs[0]}")

    def _open_configured(self) -> ObjectStore:
        path = os.environ.get(config.ENV_CONFIG)
        if path is None:
            raise errors.SpecRejectedError(
                "StorageMissing",
                "Name the job's folder: --storage s3://bucket/prefix --job <namespace>/<name>, or --dev for the job that is "
                "developed in this folder.",
            )
        job = launch.read_config(Path(path))
        s3 = job.storage.s3
        settings = StorageOptions.from_env(
            endpoint=self.endpoint or s3.endpoint,
            region=self.region or s3.region,
            path_style=s3.addressing is config.Addressing.PATH,
            ca_file=self.storage_ca or s3.ca_file,
            allow_local_files=self.allow_local_files or job.storage.allow_local_files,
        )
        return storage.open_store(f"{job.storage.uri}/{layout.job_prefix(job.namespace, job.name)}", settings)


@dataclass(frozen=True, slots=True)
class DriverAddress:
    """Where a driver's API is.

    Attributes:
        url: Its address.
        ca: File with the authority of its certificate.
        server_name: The name in its certificate.
        token: The job's token.
    """

    url: str
    ca: str | None
    server_name: str | None
    token: str | None

    def open(self) -> ApiClient:
        """Return a client of the driver.

        Raises:
            SpecRejectedError: `CaInvalid`, `TokenMissing` or `UrlInvalid`.
        """
        from statefulspark.cli import api_client

        if not self.token:
            raise errors.SpecRejectedError(
                "TokenMissing",
                f"The driver at {self.url} needs the job's token: set {config.ENV_TOKEN}, or pass --token.",
            )
        return api_client.ApiClient(self.url, self.token, authority=self.ca, server_name=self.server_name)


def connection_options(section: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the options of the connection to an object store, for a section of the help."""
    return (
        commands.option("--endpoint", metavar="URL", section=section,
                        help="S3-compatible server; AWS_ENDPOINT_URL when omitted"),
        commands.option("--region", metavar="NAME", section=section, help="region for signing; AWS_REGION when omitted"),
        commands.option("--storage-ca", metavar="FILE", section=section,
                        help="for an https:// endpoint: the authority of its certificate, in PEM, which is trusted beside "
                        f"those of this machine; {authorities.ENV} when omitted"),
        commands.option("--allow-local-files", is_flag=True, section=section,
                        help="permit file:// locations; for development on one machine"),
    )  # fmt: skip


connection = commands.bundle("connection", StorageAccess, *connection_options(_SECTION))
"""Adds the connection of the object store; the command gets `connection`."""
job_folder = commands.bundle(
    "job_folder",
    JobFolder,
    commands.option("--storage", metavar="URI", one_of="place", section=_SECTION,
                    help="the storage uri of jobs, or one job's folder; inside a driver's pod its own job when omitted"),
    commands.option("--job", metavar="NAMESPACE/NAME", section=_SECTION, help="the job below the storage uri"),
    commands.option("--dev", is_flag=True, one_of="place", section=_SECTION,
                    help=f"the state in {launch.DEVELOPMENT_FOLDER} of this folder, which `run --dev` keeps"),
    *connection_options(_SECTION),
)  # fmt: skip
"""Adds where a job's state is; the command gets `job_folder`."""
driver = commands.bundle(
    "driver",
    DriverAddress,
    commands.option("--url", default=DEFAULT_URL, show_default=True, section=_DRIVER, help="address of the driver's API"),
    commands.option("--ca", metavar="FILE", section=_DRIVER, help="for an https:// url: the authority that issued the "
                    "driver's certificate, in PEM; those of this machine when omitted"),
    commands.option("--server-name", metavar="NAME", section=_DRIVER, help="for an https:// url: the name in the driver's "
                    "certificate, for example words-driver.default.svc through a port-forward; the url's when omitted"),
    commands.option("--token", envvar=config.ENV_TOKEN, metavar="TEXT", section=_DRIVER,
                    help=f"the job's token; {config.ENV_TOKEN} when omitted, which keeps it out of `ps`"),
)  # fmt: skip
"""Adds where a driver is; the command gets `driver`."""
location = click.argument("location", metavar="LOCATION", help="URI of a snapshot's folder")
"""Adds the URI of a snapshot's folder."""


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
