"""`statefulspark run`: run a job file as a driver.

The configuration is the file named by `STATEFULSPARK_CONFIG`, if there is one, and every given flag overrides it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pydantic import ValidationError

from statefulspark import clock, errors, launch, telemetry
from statefulspark.cli import options
from statefulspark.contract import config
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
    statefulspark run job.py --storage s3://bucket/prefix \
      --restore-uri s3://bucket/prefix/default/words/savepoints/00000043

  Start with empty state again, although the same command did it before:
    statefulspark run job.py --storage s3://bucket/prefix --restore-empty --again

  Check whether a new version of the job fits its state, before starting it:
    statefulspark run job.py --storage s3://bucket/prefix --check

  Give the job file arguments of its own, which it finds in sys.argv:
    statefulspark run job.py --dev -- --region eu

  Stand by for the driver that runs now:
    statefulspark run job.py --storage s3://bucket/prefix --standby --api-port 8091

exit codes:
  0 finished   1 failed   2 wrong flags or configuration   10 drained on SIGTERM   11 stopped on request   12 fenced
  13 bad job file   14 state does not fit the job   15 no such snapshot   16 storage unavailable   17 state unknown
"""

_Fields = dict[str, object]


def add_parser(commands: options.SubParsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run a job file as a driver",
        description="Run a job file as a driver. It continues after the newest committed batch in its storage, if there "
        f"is one. Flags override the configuration file named by {config.ENV_CONFIG}.",
        epilog=_EPILOG,
        formatter_class=options.Help,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="Python file that declares a job and calls its run()")
    parser.add_argument("--name", help="name of the job; the one in FILE when omitted")
    parser.add_argument("--namespace", help="folder of the job below the storage uri; `default` when omitted")
    parser.add_argument("--parameter", type=options.key_value, action="append", metavar="NAME=VALUE",
                        help="value for the job's own code, read with ctx.parameter(NAME); repeatable")  # fmt: skip
    parser.add_argument("--api-port", type=int, metavar="PORT", help="port of the HTTP API, 8090; 0, and --dev, pick a free "
                        "one if that is taken")  # fmt: skip
    parser.add_argument("--tls-cert", metavar="FILE", help="serve the HTTP API over TLS with this certificate, in PEM; "
                        "it is read again when it changes")  # fmt: skip
    parser.add_argument("--tls-key", metavar="FILE", help="the private key of --tls-cert, in PEM")
    parser.add_argument("--token-file", metavar="FILE", help="the token that callers of the HTTP API present; it is read "
                        f"again when it changes; {config.ENV_TOKEN} when omitted")  # fmt: skip
    parser.add_argument("--log-format", type=telemetry.LogFormat, choices=tuple(telemetry.LogFormat), metavar="FORMAT",
                        help="text or json; text at a terminal and json elsewhere when omitted")  # fmt: skip
    parser.add_argument("--verbose", action="store_true", default=bool(os.environ.get(telemetry.ENV_VERBOSE)),
                        help="also log the stacks of Spark and of this product, and failed attempts; "
                        f"{telemetry.ENV_VERBOSE}=1 is the same")  # fmt: skip
    parser.add_argument("--plain", dest="display", action="store_const", const=launch.Display.PLAIN,
                        help="at a terminal, write a line for each batch instead of keeping a live display below the log; "
                        f"{telemetry.ENV_PLAIN}=1 is the same")  # fmt: skip
    options.add_connection(parser)
    group = parser.add_argument_group("where state is kept")
    group.add_argument("--storage", metavar="URI", help="s3://bucket/prefix; the job's own folder is below it")
    group.add_argument("--dev", action="store_true",
                       help=f"for development on one machine: keep state in {launch.DEVELOPMENT_FOLDER} beside FILE, and "
                       "permit file:// locations")  # fmt: skip
    group.add_argument("--savepoint-location", metavar="URI", help="default folder for savepoints")
    _add_checkpoints(parser)
    _add_restore(parser)
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", help="local[*] when omitted")
    spark.add_argument("--conf", type=options.key_value, action="append", metavar="NAME=VALUE",
                       help="a Spark setting; repeatable")  # fmt: skip
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--standby", dest="role", action="store_const", const=launch.Role.STANDBY,
                         default=launch.Role.DRIVER, help="prepare everything that needs no right to write, follow the "
                         "running driver's checkpoints, and become the driver on POST /v1/activate")  # fmt: skip
    instead.add_argument("--check", nargs="?", const="text", choices=("text", "json"), metavar="FORMAT",
                        help="do not run: report what the start would do with the state, as text or json; nothing is "
                        "written, and the exit code is not 0 if the job does not fit")  # fmt: skip
    parser.add_argument("--rehearsal", type=config.Rehearsal, choices=tuple(config.Rehearsal), metavar="WHAT",
                        help="what a standby runs before it is ready: Rows (each query over the first rows of its sources, "
                        "which the job's functions see; the default) or PlanOnly (nothing)")  # fmt: skip
    parser.set_defaults(handle=run)


def _add_checkpoints(parser: argparse.ArgumentParser) -> None:
    checkpoints = parser.add_argument_group("checkpoints", "Durations look like 500ms, 10s, 2m, 1h30m or 7d.")
    checkpoints.add_argument(
        "--checkpoint-interval", type=options.duration, metavar="TIME", help="between two triggers, 10s"
    )
    checkpoints.add_argument(
        "--checkpoint-timeout", type=options.duration, metavar="TIME", help="abort after this long, 10m"
    )
    checkpoints.add_argument(
        "--min-pause", type=options.duration, metavar="TIME", help="between completion and trigger, 0s"
    )
    checkpoints.add_argument("--max-concurrent", type=int, metavar="N", help="checkpoints in progress at once, 1")
    checkpoints.add_argument(
        "--tolerable-failures", type=int, metavar="N", help="consecutive failures before the job fails, 3"
    )
    checkpoints.add_argument("--retained", type=int, metavar="N", help="completed checkpoints to keep, 3")
    checkpoints.add_argument("--checkpoint-max-age", type=options.duration, metavar="TIME",
                       help="also drop older checkpoints, except the newest")  # fmt: skip


def _add_restore(parser: argparse.ArgumentParser) -> None:
    restore = parser.add_argument_group("where to start")
    start = restore.add_mutually_exclusive_group()
    start.add_argument(
        "--restore-uri", type=_snapshot_uri, metavar="URI", help="start from the savepoint in this folder"
    )
    start.add_argument(
        "--restore-checkpoint", type=_checkpoint_id, metavar="ID", help="start from a retained checkpoint of the job"
    )
    start.add_argument("--restore-empty", action="store_true",
                       help="start with empty state although there are checkpoints")  # fmt: skip
    name = restore.add_mutually_exclusive_group()
    name.add_argument("--again", action="store_true",
                      help="do it although it was done before. Without this flag the same restore is done once, "
                      "so that a restart continues the job, and --ownership TakeOver and --take-over-sinks count once; not "
                      "for commands that restart by themselves")  # fmt: skip
    name.add_argument("--restore-nonce", metavar="NAME",
                      help="a name for the restore: the same restore is done once for each name")  # fmt: skip
    restore.add_argument("--claim-mode", choices=tuple(config.ClaimMode), metavar="MODE",
                       help="who owns the snapshot afterwards: NoClaim (nothing changes; the default) or Claim (the job, "
                       "which deletes it once it is subsumed)")  # fmt: skip
    restore.add_argument("--drop-state", action="append", metavar="UID",
                       help="drop the state of this uid, which is not in the job any more, instead of refusing to start; "
                       "repeatable")  # fmt: skip
    restore.add_argument("--ownership", type=config.OwnershipMode, choices=tuple(config.OwnershipMode), metavar="MODE",
                       help="whose state the job may change: Exclusive (its own; the default), AdoptOrphaned (that of a "
                       "resource that was deleted in the same cluster, too) or TakeOver (that of another owner, too, for "
                       "example of a resource in a cluster)")  # fmt: skip
    restore.add_argument("--take-over-sinks", action="store_true",
                       help="write to sinks although they hold output of another state, or output newer than what is "
                       "restored; that output stays, and may be repeated. Also: this job continues the one with another "
                       "name whose state it starts from")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the driver's exit code."""
    detail = telemetry.Detail.VERBOSE if args.verbose else telemetry.Detail.BRIEF
    telemetry.configure(args.log_format, detail=detail)
    launch.exit_on_signals()
    # The guard also writes a wrong configuration to the termination log, like every other end of a driver.
    return launch.guard(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    job_config = build_config(args)
    settings.require_startable(job_config)
    if job_config.api_tls is not None:
        certificate.require_usable(job_config.api_tls)
    if job_config.api_token_file is not None:
        tokens.require_usable(job_config.api_token_file)
    launch.parse(args.file)
    # Spark's JVM starts while the job file and its imports are read.
    conf = settings.spark_conf(job_config, settings.storage_options(job_config.storage))
    sparklogfile.start_jvm(conf)
    from statefulspark.engine import session

    try:
        with session.use_drivers_jvm(conf):
            return launch.run_file(
                args.file,
                job_config,
                arguments=args.of_job_file,
                report=args.check,
                role=args.role,
                display=args.display,
            )
    finally:
        gateway.abandon()


def build_config(args: argparse.Namespace) -> config.JobConfig:
    """Return the configuration file with the flags applied.

    Raises:
        SpecRejectedError: `ConfigMissing`, `ConfigInvalid`, `NameMissing`, `RestoreMissing`, `StorageMissing` or
            `TlsIncomplete`.
    """
    path = os.environ.get(config.ENV_CONFIG)
    base: _Fields = launch.read_config(Path(path)).model_dump() if path is not None else {}
    uri = args.storage or (launch.development_storage(args.file.absolute().parent).uri if args.dev else None)
    storage = {**_section(base, "storage"), **_given(uri=uri)}
    storage["s3"] = {
        **_section(storage, "s3"),
        **_given(endpoint=args.endpoint, region=args.region, ca_file=args.storage_ca),
    }
    storage |= _given(ownership=args.ownership)
    if args.allow_local_files or args.dev:
        storage["allow_local_files"] = True
    if not storage.get("uri"):
        raise errors.SpecRejectedError(
            "StorageMissing",
            "Name the location of the state: --storage s3://bucket/prefix, or --dev to keep it beside the job file, for "
            "development on one machine.",
        )
    engine = _section(base, "engine")
    conf = {**_section(engine, "conf"), **dict(args.conf or ())}
    # While a job is developed any port will do: several may be tried at a time.
    api_port = 0 if args.api_port is None and args.dev else args.api_port
    merged = {
        **base,
        **_given(namespace=args.namespace, savepoint_location=args.savepoint_location, api_port=api_port),
        **_given(api_token_file=args.token_file, rehearsal=args.rehearsal),
        **_api_tls(args),
        "name": args.name or base.get("name") or options.declared_name(args.file),
        "storage": storage,
        "checkpoint": {
            **_section(base, "checkpoint"),
            **_given(
                interval=args.checkpoint_interval,
                timeout=args.checkpoint_timeout,
                min_pause=args.min_pause,
                max_concurrent=args.max_concurrent,
                tolerable_failures=args.tolerable_failures,
            ),
            "retention": {
                **_section(_section(base, "checkpoint"), "retention"),
                **_given(count=args.retained, max_age=args.checkpoint_max_age),
            },
        },
        "restore": _restore(args, _section(base, "restore")),
        "engine": {**engine, **_given(master=args.master), "conf": conf},
        "parameters": {**_section(base, "parameters"), **dict(args.parameter or ())},
    }
    try:
        return config.JobConfig.model_validate(merged)
    except ValidationError as error:
        what = None if launch.is_by_flags() else "The configuration"
        raise launch.config_invalid(what, error) from error


def _api_tls(args: argparse.Namespace) -> _Fields:
    if args.tls_cert is None and args.tls_key is None:
        return {}
    if args.tls_cert is None or args.tls_key is None:
        missing, given = ("--tls-cert", "--tls-key") if args.tls_cert is None else ("--tls-key", "--tls-cert")
        raise errors.SpecRejectedError("TlsIncomplete", f"{given} needs {missing} FILE beside it; add it.")
    return {"api_tls": {"certificate": args.tls_cert, "key": args.tls_key}}


def _restore(args: argparse.Namespace, base: _Fields) -> _Fields:
    """Return the restore options; a source replaces that of the file, whose nonce names another restore."""
    members = _given(
        uri=args.restore_uri, checkpoint_id=args.restore_checkpoint, empty={} if args.restore_empty else None
    )
    takes_over = args.ownership is config.OwnershipMode.TAKE_OVER or args.take_over_sinks
    if not members and (args.restore_nonce or (args.again and not takes_over)):
        raise errors.SpecRejectedError(
            "RestoreMissing",
            "--restore-nonce needs --restore-uri, --restore-checkpoint or --restore-empty, and --again needs one of them, "
            "--ownership TakeOver or --take-over-sinks; add it.",
        )
    now = clock.utc_now()
    start = base
    if members:
        restore = config.RestoreConfig(source=config.RestoreSource.model_validate(members), nonce=args.restore_nonce)
        restore = restore.again(now) if args.again else restore
        start = restore.model_dump(include={"source", "nonce"})
    start = {**start, "takes_over_as": f"again at {now.isoformat()}"} if args.again else start
    start = {**start, **_given(claim_mode=args.claim_mode, take_over_sinks=args.take_over_sinks or None)}
    return {**start, **_given(drop_state=args.drop_state)}


def _section(fields: _Fields, name: str) -> _Fields:
    section = fields.get(name)
    return section if isinstance(section, dict) else {}


def _given(**flags: object) -> _Fields:
    return {name: value for name, value in flags.items() if value is not None}


def _checkpoint_id(text: str) -> int:
    """Read `--restore-checkpoint`."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be the number of a checkpoint, as `checkpoint list` shows it")


def _snapshot_uri(text: str) -> str:
    """Read `--restore-uri`."""
    if text.startswith(config.ALLOWED_SCHEMES):
        return text.rstrip("/")
    raise argparse.ArgumentTypeError(f"{text!r} must be the URI of a savepoint's folder")
