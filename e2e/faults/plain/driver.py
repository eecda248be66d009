"""A driver of plain PySpark, by spark-submit, as the pod of a Spark application starts it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import driverprocess
import processes
from statefulspark.engine import gateway

JOBS = Path(__file__).with_name("jobs")
CLOUD = Path(__file__).resolve().parents[3] / "build" / "spark-hadoop-cloud"
_OURS = "statefulspark-"
_PYTHON = Path(__file__).with_name("python.sh")
_WORKS = "Streaming query made progress"
_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]{5,}(?:\.[A-Z0-9_]+)*)\]")
_EXCEPTION = re.compile(r"\b(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error))\b")
_MOST_OF_ERROR = 20_000
_GENERIC = ("STREAM_FAILED", "Py4JJavaError", "StreamingQueryException", "SparkException")


class PlainDriver(driverprocess.SparkDriver):
    """A driver of the plain job.

    Args:
        log: What all its starts print.
        arguments: Of the job.
        conf: Spark's settings beside those of `spark-defaults.conf`.
        environment: Variables beside those of this process.
    """

    def __init__(
        self, log: Path, arguments: tuple[str, ...], *, conf: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        python = {"PYSPARK_PYTHON": str(_PYTHON), "INSTALLED_PYTHON": sys.executable}
        super().__init__(log, environment={**environment, **python}, patience_s=180.0)
        self._arguments, self._conf = arguments, conf

    def start(self, *flags: str) -> None:
        """Start it and return at once.

        Args:
            flags: Further arguments of the job; those of `--conf` are Spark's.
        """
        settings = [word for name, value in self._conf.items() for word in ("--conf", f"{name}={value}")]
        own, spark = split(flags)
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", *settings, *spark]
        command += ["--properties-file", str(JOBS / "spark-defaults.conf"), "--jars", ",".join(jars())]
        self.launch([*command, str(JOBS / "ledger.py"), *self._arguments, *own])

    @property
    def is_up(self) -> bool:
        """Whether a query has done a batch since its start."""
        return _WORKS in self.output


def split(flags: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the job's flags and Spark's, `--conf` with their values."""
    own: list[str] = []
    spark: list[str] = []
    words = iter(flags)
    for word in words:
        if word == "--conf":
            spark += [word, next(words)]
        else:
            own.append(word)
    return tuple(own), tuple(spark)


def jars() -> list[str]:
    """Return the jars of S3A and Kafka, and Spark's for object stores; none of ours."""
    own = [jar for folder in gateway.jar_folders() for jar in sorted(folder.glob("*.jar"))]
    cloud = sorted(CLOUD.glob("*.jar"))
    processes.require(cloud[0] if cloud else CLOUD / "spark-hadoop-cloud.jar", "spark-hadoop-cloud")
    return [str(jar) for jar in (*own, *cloud) if not jar.name.startswith(_OURS)]


def error_class(text: str) -> str:
    """Return the name that Spark gave the error which ended the first query: its class, or the exception where it has none.

    The other queries end because the driver does, with errors that say nothing.
    """
    begin = text.find("terminated with error")
    told = text[begin : begin + _MOST_OF_ERROR] if begin >= 0 else text[text.rfind("Traceback") :]
    for pattern in (_CLASS, _EXCEPTION):
        names = [name for name in pattern.findall(told) if name not in _GENERIC]
        if names:
            return str(names[0])
    return "no error was logged"
