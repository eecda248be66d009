"""Mistakes that people make with a job and its command, and what is printed: the cases of a test and of `docs/errors.md`.

`python tests/support/mistakes.py` writes the table of that page anew, from the same cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
BEGIN, END = "<!-- cases: begin -->\n", "<!-- cases: end -->\n"
STORAGE = ("--storage", "s3://bucket/prefix")
_HEAD = 'import statefulspark as ss\n\njob = ss.Job("words")\n'
_TAIL = "\njob.run()\n"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake, and what `statefulspark run` prints.

    Attributes:
        what: The mistake, as a sentence.
        source: The job file; None if there is none.
        printed: The lines, without times; `FILE` is the job file.
        code: The exit code.
        flags: Of the command.
        neighbour: Source of a module `helpers` beside the job file.
        starts_java: Whether Spark's JVM is started while the file is read.
    """

    what: str
    source: str | None
    printed: str
    code: int
    flags: tuple[str, ...] = STORAGE
    neighbour: str | None = None
    starts_java: bool = False


def query(body: str) -> str:
    """Return a job file with one query, whose function has this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f'{_HEAD}\n\n@job.query(uid="counts")\ndef counts(spark, ctx):\n{lines}\n{_TAIL}'


GOOD = query("return None")
NO_QUERY = f"{_HEAD}{_TAIL}"
_CORRECT = "Correct it and start the job again."


def _ends(code: str, reason: str, message: str) -> str:
    return f"ERROR launch: driver ends code={code} reason={reason}\nerror: {message}\n"


def _usage(reason: str, message: str) -> str:
    return _ends("USAGE", reason, message)


def _bad(message: str, reason: str = "JobFileRaised") -> str:
    return _ends("BAD_JOB", reason, message)


def _flag(message: str) -> str:
    return f"error: {message}. See `statefulspark run --help`.\n"


WITHOUT_SPARK = (
    Mistake(
        "no storage",
        GOOD,
        _usage(
            "StorageMissing",
            "Name the location of the state: --storage s3://bucket/prefix, or --dev to keep it beside the job file, for "
            "development on one machine.",
        ),
        2,
        flags=(),
    ),
    Mistake(
        "a storage of another kind",
        GOOD,
        _usage(
            "ConfigInvalid",
            "The flag --storage is wrong: the storage uri 'gs://bucket' must start with s3://; state has to be on shared "
            "storage (got 'gs://bucket').",
        ),
        2,
        flags=("--storage", "gs://bucket"),
    ),
    Mistake(
        "a local folder as storage",
        GOOD,
        _usage(
            "LocalStorageRefused",
            "The storage uri 'file:///tmp/state' is on this node's disk, and state written to one node's disk cannot be "
            "restored on another node; use s3://bucket/prefix, or add --allow-local-files for development on one machine.",
        ),
        2,
        flags=("--storage", "file:///tmp/state"),
    ),
    Mistake(
        "a local folder that is relative",
        GOOD,
        _usage(
            "StorageUriInvalid",
            "The storage uri 'file://state' must name an absolute folder, for example file:///tmp/state.",
        ),
        2,
        flags=("--storage", "file://state", "--allow-local-files"),
    ),
    Mistake(
        "an endpoint without http://",
        GOOD,
        _usage(
            "EndpointInvalid",
            "The endpoint 'minio:9000' is no server URL; write http://minio:9000 or https://s3.example.com (--endpoint or "
            "AWS_ENDPOINT_URL).",
        ),
        2,
        flags=(*STORAGE, "--endpoint", "minio:9000"),
    ),
    Mistake(
        "a malformed endpoint",
        GOOD,
        _usage(
            "EndpointInvalid",
            "The endpoint 'http://[minio' is no server URL; write http://minio:9000 or https://s3.example.com (--endpoint "
            "or AWS_ENDPOINT_URL).",
        ),
        2,
        flags=(*STORAGE, "--endpoint", "http://[minio"),
    ),
    Mistake(
        "a certificate that is not there",
        GOOD,
        _usage(
            "TlsFileMissing",
            "The file /nowhere/tls.crt for TLS of the driver's API cannot be read: No such file or directory; check "
            "--api-tls-certificate and --api-tls-key; in a cluster, that the Secret has the keys tls.crt and tls.key.",
        ),
        2,
        flags=(*STORAGE, "--api-tls-certificate", "/nowhere/tls.crt", "--api-tls-key", "/nowhere/tls.key"),
    ),
    Mistake(
        "a certificate without its key",
        GOOD,
        _usage("TlsIncomplete", "--api-tls-certificate needs --api-tls-key FILE beside it; add it."),
        2,
        flags=(*STORAGE, "--api-tls-certificate", "tls.crt"),
    ),
    Mistake(
        "a region with a blank",
        GOOD,
        _usage(
            "RegionInvalid",
            "The region 'eu west' is not the name of a region; write us-east-1, for example (--region or AWS_REGION).",
        ),
        2,
        flags=(*STORAGE, "--region", "eu west"),
    ),
    Mistake(
        "savepoints at a location of another kind",
        GOOD,
        _usage(
            "StorageUriInvalid",
            "'gs://bucket/savepoints' is not a storage location for state or output; write s3://bucket/prefix, or "
            "file:///folder for development on one machine, where local files are allowed.",
        ),
        2,
        flags=(*STORAGE, "--savepoint-location", "gs://bucket/savepoints"),
    ),
    Mistake(
        "no checkpoint retained",
        GOOD,
        _usage(
            "ConfigInvalid",
            "The flag --checkpoint-retention-count is wrong: Input should be greater than or equal to 1 (got 0).",
        ),
        2,
        flags=(*STORAGE, "--checkpoint-retention-count", "0"),
    ),
    Mistake(
        "a duration without a unit",
        GOOD,
        _flag(
            "Invalid value for '--checkpoint-interval': The duration '10' must be a number with a unit: 500ms, 10s, 2m, "
            "1h30m or 7d"
        ),
        2,
        flags=(*STORAGE, "--checkpoint-interval", "10"),
    ),
    Mistake(
        "an interval of nothing",
        GOOD,
        _usage(
            "ConfigInvalid",
            "The flag --checkpoint-interval is wrong: the checkpoint interval must be larger than or equal to 10 ms, and at "
            "most a year (got 0 s).",
        ),
        2,
        flags=(*STORAGE, "--checkpoint-interval", "0s"),
    ),
    Mistake(
        "a port that does not exist",
        GOOD,
        _usage(
            "ConfigInvalid",
            "The flag --api-port is wrong: Input should be less than or equal to 65535 (got 70000).",
        ),
        2,
        flags=(*STORAGE, "--api-port", "70000"),
    ),
    Mistake(
        "a parameter without a value",
        GOOD,
        _flag("Invalid value for '--parameter': 'input' must have the form name=value"),
        2,
        flags=(*STORAGE, "--parameter", "input"),
    ),
    Mistake(
        "a checkpoint that is no number",
        GOOD,
        _flag(
            "Invalid value for '--restore-checkpoint-id': 'latest' must be the number of a checkpoint, as `checkpoint "
            "list` shows it"
        ),
        2,
        flags=(*STORAGE, "--restore-checkpoint-id", "latest"),
    ),
    Mistake(
        "--restore-again without a restore",
        GOOD,
        _usage(
            "RestoreMissing",
            "--restore-nonce needs --restore-uri, --restore-checkpoint-id or --restore-empty, and --restore-again needs "
            "one of them, --ownership TakeOver, --restore-repeat-output-of or --restore-lose-output-of; add it.",
        ),
        2,
        flags=(*STORAGE, "--restore-again"),
    ),
    Mistake(
        "a restore and empty state",
        GOOD,
        _flag("The options --restore-checkpoint-id and --restore-empty exclude one another; give one of them"),
        2,
        flags=(*STORAGE, "--restore-checkpoint-id", "41", "--restore-empty"),
    ),
    Mistake(
        "a setting that belongs to the runtime",
        GOOD,
        _usage(
            "EngineSettingRefused",
            "These Spark settings belong to the runtime; remove them: spark.sql.streaming.minBatchesToRetain (Spark would "
            "delete files that retained checkpoints need; use --checkpoint-retention-count)",
        ),
        2,
        flags=(*STORAGE, "--conf", "spark.sql.streaming.minBatchesToRetain=2"),
    ),
    Mistake(
        "a job file that is not there",
        None,
        _bad("The job file FILE cannot be read: No such file or directory; check the path.", "JobFileMissing"),
        13,
    ),
    Mistake(
        "a syntax error",
        f"{_HEAD}\ndef counts(:\n    pass\n",
        '  File "FILE", line 5\n    def counts(:\n               ^\nSyntaxError: invalid syntax\n'
        + _bad(f"The job file FILE line 5 raised SyntaxError: invalid syntax. {_CORRECT}"),
        13,
    ),
    Mistake(
        "a syntax error in a module that the file imports",
        f"import helpers\n{_HEAD}",
        '  File "FILE", line 1, in <module>\n    import helpers\n'
        '  File "HELPERS", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'
        + _bad(f"The job file FILE line 1 raised SyntaxError: invalid syntax (helpers.py, line 1). {_CORRECT}"),
        13,
        neighbour="def f(:\n    pass\n",
        starts_java=True,
    ),
    Mistake(
        "a name that does not exist",
        f"{_HEAD}\nwindow = minutes(5)\n",
        '  File "FILE", line 5, in <module>\n    window = minutes(5)\n'
        "NameError: name 'minutes' is not defined\n"
        + _bad(f"The job file FILE line 5 raised NameError: name 'minutes' is not defined. {_CORRECT}"),
        13,
        starts_java=True,
    ),
    Mistake(
        "a module that is not installed",
        f"import no_such_module\n{_HEAD}",
        '  File "FILE", line 1, in <module>\n    import no_such_module\n'
        "ModuleNotFoundError: No module named 'no_such_module'\n"
        + _bad(f"The job file FILE line 1 raised ModuleNotFoundError: No module named 'no_such_module'. {_CORRECT}"),
        13,
        starts_java=True,
    ),
    Mistake(
        "a job that is never run",
        _HEAD,
        _bad("The job file FILE ended without running a job; end it with `job.run()`.", "NoQueries"),
        13,
        starts_java=True,
    ),
    Mistake(
        "a file that exits",
        f"{_HEAD}\nimport sys\n\nsys.exit(1)\n",
        _bad("The job file FILE ended with sys.exit(1) before it ran a job; end it with `job.run()`."),
        13,
        starts_java=True,
    ),
    Mistake(
        "two jobs in one file",
        f'{_HEAD}other = ss.Job("other")\n{_TAIL}',
        _usage("NameMissing", 'The job file FILE holds 2 calls like Job("name"); name the job with --name.'),
        2,
    ),
    Mistake(
        "a job without a query",
        NO_QUERY,
        _bad("The job words declares no query; decorate one with @job.query.", "NoQueries"),
        13,
        starts_java=True,
    ),
    Mistake(
        "a query without a uid",
        f"{_HEAD}\n\n@job.query()\ndef counts(spark, ctx):\n    return None\n\n{_TAIL}",
        '  File "FILE", line 6, in <module>\n    @job.query()\n'
        "TypeError: Job.query() missing 1 required keyword-only argument: 'uid'\n"
        + _bad(
            "The job file FILE line 6 raised TypeError: Job.query() missing 1 required keyword-only argument: 'uid'. "
            + _CORRECT
        ),
        13,
        starts_java=True,
    ),
    Mistake(
        "two queries with one uid",
        query("return None").replace(_TAIL, '@job.query(uid="counts")\ndef again(spark, ctx): ...\n' + _TAIL),
        _bad("Two queries of the job words have the uid 'counts'; give each its own. (FILE line 10)", "UidDuplicate"),
        13,
        starts_java=True,
    ),
    Mistake(
        "a uid that storage cannot have",
        f'{_HEAD}\n\n@job.query(uid="Daily Counts")\ndef counts(spark, ctx):\n    return None\n\n{_TAIL}',
        _bad(
            "The uid 'Daily Counts' of a query must be 1 to 63 characters of a-z, 0-9, '-' and '_', starting and ending "
            "with a letter or digit; state is found by this name, so it must never change. (FILE line 6)",
            "UidInvalid",
        ),
        13,
        starts_java=True,
    ),
    Mistake(
        "an operator without a uid",
        query(
            'rows = spark.readStream.format("rate").load()\n'
            'return ss.keyed_process(rows, key="value", function=None, schema="n long")'
        ),
        _bad(
            f"The job file FILE line 9 raises TypeError: keyed_process() missing a required argument: 'uid'. {_CORRECT}"
        ),
        13,
        starts_java=True,
    ),
    Mistake(
        "a misspelt name of the library",
        query("return ss.key_process(None)"),
        _bad(
            "The job file FILE line 8 raises AttributeError: module 'statefulspark' has no attribute 'key_process' (did you "
            f"mean 'keyed_process'?). {_CORRECT}"
        ),
        13,
        starts_java=True,
    ),
    Mistake(
        "a misspelt argument",
        query('return ss.write(None, sink=None, uuid="out")'),
        _bad(
            "The job file FILE line 8 raises TypeError: write() got an unexpected keyword argument 'uuid' (did you mean "
            f"'uid'?). {_CORRECT}"
        ),
        13,
        starts_java=True,
    ),
)


def page(text: str) -> str:
    """Return a page with the table of the cases between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "| mistake | exit code | last line |\n| --- | --- | --- |\n" + _rows() + END + after


def _rows() -> str:
    return "".join(f"| {mistake.what} | {mistake.code} | {_last_line(mistake)} |\n" for mistake in WITHOUT_SPARK)


def _last_line(mistake: Mistake) -> str:
    line = mistake.printed.splitlines()[-1].replace("FILE", "/app/job.py")
    return f"``{line}``".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
