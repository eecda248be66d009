"""`statefulspark run`: run a job file as a driver.

The configuration is the file named by `STATEFULSPARK_CONFIG`, if there is one, and every given option overrides the field
that `flagnames` names for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from statefulspark import clock, errors, launch, telemetry
from statefulspark.cli import options
from statefulspark.commandline import commands, values
from statefulspark.contract import config, flagnames, layout
from statefulspark.engine import gateway, settings, sparklogfile
from statefulspark.server import certificate, tokens

_EPILOG = """\
examples:
  Try a job on this machine:
    statefulspark run job.py --dev

  Run it on an S3-compatible server, checkpoint every 5 seconds:
    export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
    statefulspark run job.py --storage s3://bucket/prefix --endpoint http://minio:9000 --checkpoint-interval 5s

  Continue from a savepoint:
    statefulspark run job.py --storage s3://bucket/prefix \\
      --restore-uri s3://bucket/prefix/default/words/savepoints/00000043

  Start with empty state again, although the same command did it before:
    statefulspark run job.py --storage s3://bucket/prefix --restore-empty --restore-again

  Check whether a new version of the job fits its state, before starting it:
    statefulspark run job.py --storage s3://bucket/prefix --check -o json

  Give the job file arguments of its own, which it finds in sys.argv:
    statefulspark run job.py --dev -- --region eu

  Stand by for the driver that runs now:
    statefulspark run job.py --storage s3://bucket/prefix --standby --api-port 8091

exit codes:
  0 finished, drained on SIGTERM, or stopped on request   1 failed   2 wrong options or configuration   12 fenced
  13 bad job file   14 state does not fit the job   15 no such snapshot   16 storage unavailable   17 state unknown
"""

_Fields = dict[str, Any]
_CHECKPOINTS = "Checkpoints (durations look like 500ms, 10s, 2m, 1h30m or 7d)"
_RESTORE = "Where to start"
_STATE = "Where state is kept (credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
_API = "HTTP API"
_SOURCES = {"restore_uri": "uri", "restore_checkpoint_id": "checkpointID", "restore_empty": "empty"}
"""The member of `restore.source` that each option gives."""


class _Uri(click.ParamType[str]):
    """The URI of a savepoint's folder."""

    name = "uri"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 -- click's own
        """Read a URI."""
        text = str(value)
        if not text.startswith(config.ALLOWED_SCHEMES):
            self.fail(f"{text!r} must be the URI of a savepoint's folder", param, ctx)
        return text.rstrip("/")


class _SinkName(click.ParamType[str]):
    """The name of a sink of a job."""

    name = "query/sink"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 -- click's own
        """Read a name."""
        text = str(value)
        if re.fullmatch(layout.SINK_NAME, text) is None:
            self.fail(f"{text!r} must be the uids of a query and of its sink, as in orders/table", param, ctx)
        return text


class _RunCommand(commands.Command):
    """A command that leaves what follows `--` to the job file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments before `--`."""
        end = args.index("--") if "--" in args else len(args)
        ctx.params["arguments"] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the parts of the usage."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENT...]"]


_options = commands.together(
    commands.option("--name", metavar="NAME", help="name of the job; the one in FILE when omitted"),
    commands.option("--namespace", metavar="NAME",
                    help="folder of the job below the storage uri; `default` when omitted"),
    commands.option("--parameter", "parameters", type=values.PAIR, multiple=True, metavar="NAME=VALUE",
                    help="value for the job's own code, read with ctx.parameter(NAME); repeatable"),
    commands.option("--check", is_flag=True, one_of="role",
                    help="do not run: report what the start would do with the state; nothing is written, and the exit code "
                    "is not 0 if the job does not fit"),
    commands.option("-o", "--output", type=click.Choice(("text", "json")),
                    help="format of the report of --check; text when omitted"),
    commands.option("--standby", is_flag=True, one_of="role",
                    help="prepare everything that needs no right to write, follow the running driver's checkpoints, and "
                    "become the driver on POST /v1/activate"),
    commands.option("--rehearsal", type=values.Word(config.Rehearsal),
                    help="what a standby runs before it is ready: Rows (each query over the first rows of its sources, "
                    "which the job's functions see; the default) or PlanOnly (nothing)"),
    commands.option("--log-format", type=values.Word(telemetry.LogFormat),
                    help="text at a terminal and json elsewhere when omitted"),
    commands.option("--verbose", is_flag=True, default=lambda: bool(os.environ.get(telemetry.ENV_VERBOSE)),
                    help=f"also log the stacks of Spark and of this product, and failed attempts; {telemetry.ENV_VERBOSE}=1 "
                    "is the same"),
    commands.option("--plain", is_flag=True,
                    help="at a terminal, write a line for each batch instead of keeping a live display below the log; "
                    f"{telemetry.ENV_PLAIN}=1 is the same"),
    commands.option("--storage", metavar="URI", section=_STATE,
                    help="the storage uri of jobs; the job's own folder is below it"),
    commands.option("--dev", is_flag=True, section=_STATE,
                    help=f"for development on one machine: keep state in {launch.DEVELOPMENT_FOLDER} beside FILE, and "
                    "permit file:// locations"),
    *options.connection_options(_STATE),
    commands.option("--ownership", type=values.Word(config.OwnershipMode), section=_STATE,
                    help="whose state the job may change: Exclusive (its own; the default), AdoptOrphaned (that of a "
                    "resource that was deleted in the same cluster, too) or TakeOver (that of another owner, too, for "
                    "example of a resource in a cluster)"),
    commands.option("--savepoint-location", metavar="URI", section=_STATE, help="default folder for savepoints"),
    commands.option("--api-port", type=int, metavar="PORT", section=_API,
                    help="port of the HTTP API, 8090; 0, and --dev, pick a free one if that is taken"),
    commands.option("--api-token-file", metavar="FILE", section=_API,
                    help=f"the token that callers present; it is read again when it changes; {config.ENV_TOKEN} when "
                    "omitted"),
    commands.option("--api-tls-certificate", metavar="FILE", section=_API,
                    help="serve over TLS with this certificate, in PEM; it is read again when it changes"),
    commands.option("--api-tls-key", metavar="FILE", section=_API, help="the private key of the certificate, in PEM"),
    commands.option("--checkpoint-interval", type=values.DURATION, metavar="DURATION", section=_CHECKPOINTS,
                    help="between two triggers, 10s"),
    commands.option("--checkpoint-timeout", type=values.DURATION, metavar="DURATION", section=_CHECKPOINTS,
                    help="abort after this long, 10m"),
    commands.option("--checkpoint-min-pause", type=values.DURATION, metavar="DURATION", section=_CHECKPOINTS,
                    help="between completion and trigger, 0s"),
    commands.option("--checkpoint-max-concurrent", type=int, metavar="N", section=_CHECKPOINTS,
                    help="checkpoints in progress at once, 1"),
    commands.option("--checkpoint-tolerable-failures", type=int, metavar="N", section=_CHECKPOINTS,
                    help="consecutive failures before the job fails, 3"),
    commands.option("--checkpoint-retention-count", type=int, metavar="N", section=_CHECKPOINTS,
                    help="completed checkpoints to keep, 3"),
    commands.option("--checkpoint-retention-max-age", type=values.DURATION, metavar="DURATION", section=_CHECKPOINTS,
                    help="also drop older checkpoints, except the newest"),
    commands.option("--checkpoint-prune-delay", type=values.DURATION, metavar="DURATION", section=_CHECKPOINTS,
                    help="files wait this long before they are deleted, 60s"),
    commands.option("--checkpoint-history-limit", type=int, metavar="N", section=_CHECKPOINTS,
                    help="ended snapshots whose details the API remembers, 10"),
    commands.option("--restore-uri", type=_Uri(), metavar="URI", one_of="source", section=_RESTORE,
                    help="start from the savepoint in this folder"),
    commands.option("--restore-checkpoint-id", type=values.CHECKPOINT_ID, metavar="ID", one_of="source", section=_RESTORE,
                    help="start from a retained checkpoint of the job"),
    commands.option("--restore-empty", is_flag=True, one_of="source", section=_RESTORE,
                    help="start with empty state although there are checkpoints"),
    commands.option("--restore-again", is_flag=True, one_of="request", section=_RESTORE,
                    help="do it although it was done before. Without this option the same restore is done once, so that a "
                    "restart continues the job, and --ownership TakeOver, --restore-repeat-output-of and "
                    "--restore-lose-output-of count once; not for commands that restart by themselves"),
    commands.option("--restore-nonce", metavar="NAME", one_of="request", section=_RESTORE,
                    help="a name for the restore: the same restore is done once for each name"),
    commands.option("--restore-claim-mode", type=values.Word(config.ClaimMode), section=_RESTORE,
                    help="who owns the snapshot afterwards: NoClaim (nothing changes; the default) or Claim (the job, "
                    "which deletes it once it is subsumed)"),
    commands.option("--restore-drop-state", multiple=True, metavar="UID", section=_RESTORE,
                    help="drop the state of this uid, which is not in the job any more, instead of refusing to start; "
                    "repeatable"),
    commands.option("--restore-repeat-output-of", type=_SinkName(), multiple=True, metavar="QUERY/SINK", section=_RESTORE,
                    help="write to this sink although it holds output of another state, or output newer than what is "
                    "restored; that output stays, and may be repeated. Also: this job continues the one with another "
                    "name whose state it starts from; repeatable"),
    commands.option("--restore-lose-output-of", type=_SinkName(), multiple=True, metavar="QUERY/SINK", section=_RESTORE,
                    help="go on although this sink has lost rows that the job cannot send again; they stay missing; "
                    "repeatable"),
    commands.option("--master", metavar="MASTER", section="Spark", help="local[*] when omitted"),
    commands.option("--conf", type=values.PAIR, multiple=True, metavar="NAME=VALUE", section="Spark",
                    help="a Spark setting; repeatable"),
)  # fmt: skip


@click.command(
    "run",
    cls=_RunCommand,
    short_help="run a job file as a driver",
    help="Run a job file as a driver. It continues after the newest committed batch in its storage, if there is one. "
    f"Options override the configuration file named by {config.ENV_CONFIG}.",
    epilog=_EPILOG,
)
@click.argument("file", type=click.Path(path_type=Path), help="a Python file that declares a job and calls its run()")
@_options
def command(check: bool, output: str | None, **given: Any) -> int:  # noqa: ANN401 -- the values of the options
    """Run the command; returns the driver's exit code."""
    if output is not None and not check:
        raise click.UsageError("The option --output is the format of --check; add it.")
    detail = telemetry.Detail.VERBOSE if given["verbose"] else telemetry.Detail.BRIEF
    telemetry.configure(given["log_format"], detail=detail)
    launch.exit_on_signals()
    # The guard also writes a wrong configuration to the termination log, like every other end of a driver.
    return launch.guard(lambda: _run(given, report=(output or "text") if check else None))


def _run(given: Mapping[str, Any], *, report: str | None) -> int:
    job_config = build_config(given)
    settings.require_startable(job_config)
    if job_config.api_tls is not None:
        certificate.require_usable(job_config.api_tls)
    if job_config.api_token_file is not None:
        tokens.require_usable(job_config.api_token_file)
    launch.parse(given["file"])
    # Spark's JVM starts while the job file and its imports are read.
    conf = settings.spark_conf(job_config, settings.storage_options(job_config.storage))
    sparklogfile.start_jvm(conf)
    from statefulspark.engine import session

    try:
        with session.use_drivers_jvm(conf):
            return launch.run_file(
                given["file"],
                job_config,
                arguments=given["arguments"],
                report=report,
                role=launch.Role.STANDBY if given["standby"] else launch.Role.DRIVER,
                display=launch.Display.PLAIN if given["plain"] else None,
            )
    finally:
        gateway.abandon()


def build_config(given: Mapping[str, Any]) -> config.JobConfig:
    """Return the configuration file with the options applied.

    Args:
        given: The values of the options by name.

    Raises:
        SpecRejectedError: `ConfigMissing`, `ConfigInvalid`, `NameMissing`, `RestoreMissing`, `StorageMissing` or
            `TlsIncomplete`.
    """
    path, file = os.environ.get(config.ENV_CONFIG), given["file"]
    merged: _Fields = launch.read_config(Path(path)).model_dump(by_alias=True) if path is not None else {}
    _put_restore(merged, given)
    for field, flag in flagnames.BY_FIELD.items():
        value = given.get(flag.removeprefix("--").replace("-", "_"))
        if field.startswith("restore.source.") or value is None or value is False or value == ():
            continue
        _put(merged, field, value)
    for field in ("parameters", "engine.conf"):
        pairs = given[field.rpartition(".")[2]]
        for name, text in pairs:
            _section(merged, field)[name] = text
    if given["dev"]:
        storage = _section(merged, "storage")
        storage["allowLocalFiles"] = True
        if given["storage"] is None:
            storage["uri"] = launch.development_storage(file.absolute().parent).uri
        # While a job is developed any port will do: several may be tried at a time.
        merged["apiPort"] = given["api_port"] or 0
    if not _section(merged, "storage").get("uri"):
        raise errors.SpecRejectedError(
            "StorageMissing",
            "Name the location of the state: --storage s3://bucket/prefix, or --dev to keep it beside the job file, for "
            "development on one machine.",
        )
    tls = sorted(("--api-tls-certificate", "--api-tls-key"), key=lambda flag: given[flag[2:].replace("-", "_")] is None)
    if (given["api_tls_certificate"] is None) is not (given["api_tls_key"] is None):
        raise errors.SpecRejectedError("TlsIncomplete", f"{tls[0]} needs {tls[1]} FILE beside it; add it.")
    merged["name"] = merged.get("name") or options.declared_name(file)
    try:
        return config.JobConfig.model_validate(merged)
    except ValidationError as error:
        what = None if launch.is_by_flags() else "The configuration"
        raise launch.config_invalid(what, error) from error


def _put_restore(merged: _Fields, given: Mapping[str, Any]) -> None:
    """Apply the source to start from; it replaces that of the file, whose nonce names another restore."""
    option = next((name for name in _SOURCES if given[name]), None)
    again, nonce = given["restore_again"], given["restore_nonce"]
    gives_right = given["restore_repeat_output_of"] or given["restore_lose_output_of"]
    counts_once = given["ownership"] is config.OwnershipMode.TAKE_OVER or gives_right
    if option is None and (nonce or (again and not counts_once)):
        raise errors.SpecRejectedError(
            "RestoreMissing",
            "--restore-nonce needs --restore-uri, --restore-checkpoint-id or --restore-empty, and --restore-again needs "
            "one of them, --ownership TakeOver, --restore-repeat-output-of or --restore-lose-output-of; add it.",
        )
    now = clock.utc_now()
    if option is not None:
        member = {_SOURCES[option]: {} if option == "restore_empty" else given[option]}
        restore = config.RestoreConfig(source=config.RestoreSource.model_validate(member), nonce=nonce)
        restore = restore.again(now) if again else restore
        merged["restore"] = restore.model_dump(by_alias=True, include={"source", "nonce"})
    if again:
        _put(merged, "restore.takesOverAs", f"again at {now.isoformat()}")


def _put(fields: _Fields, path: str, value: object) -> None:
    section, _, name = path.rpartition(".")
    _section(fields, section)[name] = value


def _section(fields: _Fields, path: str) -> _Fields:
    """Return a section of the configuration, which is empty until then."""
    for name in filter(None, path.split(".")):
        if not isinstance(fields.get(name), dict):
            fields[name] = {}
        fields = fields[name]
    return fields
