"""The release of PySpark that is installed, the releases that are supported, and what an older one lacks.

A release is a pair of numbers: (4, 2). Its patches are alike. This module does not import PySpark.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from statefulspark import errors

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader

Release = tuple[int, int]

SUPPORTED: Final[tuple[Release, ...]] = ((4, 1), (4, 2), (4, 3))


@dataclass(frozen=True, slots=True)
class Feature:
    """What only newer releases of Spark have.

    Attributes:
        what: What a person asked for.
        since: The first release that has it.
        ticket: Spark's ticket.
        instead: What to do with an older release.
    """

    what: str
    since: Release
    ticket: str
    instead: str


REPARTITION: Final = Feature(
    "To spread the state of Spark's own operators over another number of partitions",
    (4, 2),
    "SPARK-54924",
    "Leave spark.sql.shuffle.partitions as the state has it, or start the job with PySpark 4.2 or newer.",
)
READING_STATE: Final = Feature(
    "To read state out of Spark's own files, which a canonical savepoint, its conversion and `statefulspark state` do,",
    (4, 2),
    "SPARK-54419",
    "Take a native savepoint, and convert or read it where PySpark 4.2 or newer is installed.",
)
WRITING_STATE: Final = Feature(
    "To start from a canonical savepoint",
    (4, 2),
    "SPARK-54924",
    "Start from a checkpoint or a native savepoint, or with PySpark 4.2 or newer.",
)
STATEFUL_SOURCES: Final = Feature(
    "To read a stateful source",
    (4, 2),
    "SPARK-55304",
    "Start the job with PySpark 4.2 or newer, which names the position to a Python data source.",
)


def text(release: Release) -> str:
    """Return a release as Spark writes it: `4.2`."""
    return f"{release[0]}.{release[1]}"


def home() -> Path:
    """Return PySpark's folder.

    Raises:
        InternalError: `SparkMissing`.
    """
    return _folder_and_loader()[0]


@functools.cache
def version() -> str:
    """Return the version of PySpark as its own file says it, since a reader of its metadata costs imports in a start.

    Workers on executors read it from an archive, `pyspark.zip`.

    Raises:
        InternalError: `SparkMissing`.
    """
    folder, loader = _folder_and_loader()
    content = loader.get_data(str(folder / "version.py")).decode()
    stated = re.search(r"""^__version__\b.*["'](.+)["']$""", content, re.MULTILINE)
    return stated[1] if stated is not None else "of an unknown release"


def _folder_and_loader() -> tuple[Path, ResourceLoader]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise errors.InternalError("SparkMissing", "PySpark is not installed; install statefulspark[spark].")
    return Path(spec.submodule_search_locations[0]), cast("ResourceLoader", spec.loader)


def installed() -> Release:
    """Return the release that is installed.

    Raises:
        InternalError: `SparkMissing`, or `SparkUnsupported`: this product does not run on it.
    """
    numbers = re.match(r"(\d+)\.(\d+)\.", version())
    release = (int(numbers[1]), int(numbers[2])) if numbers is not None else None
    if release not in SUPPORTED:
        newest = SUPPORTED[-1]
        requirement = f"pyspark>={text(SUPPORTED[0])},<{text((newest[0], newest[1] + 1))}"
        raise errors.InternalError(
            "SparkUnsupported",
            f"PySpark {version()} is installed, and this release of statefulspark runs on PySpark {text(SUPPORTED[0])} to "
            f"{text(newest)}. Install one of them with `pip install '{requirement}'`; in an image, begin from the image of "
            "this release.",
        )
    return release


def folder_name() -> str:
    """Return the name of the folder with the jars for the installed release: `spark-4.2`.

    Raises:
        InternalError: `SparkMissing` or `SparkUnsupported`.
    """
    return f"spark-{text(installed())}"


def has(feature: Feature) -> bool:
    """Tell whether the installed release has a feature."""
    return installed() >= feature.since


def require(feature: Feature) -> None:
    """Refuse what the installed release cannot do.

    Raises:
        SpecRejectedError: `SparkTooOld`.
    """
    if not has(feature):
        raise errors.SpecRejectedError(
            "SparkTooOld",
            f"{feature.what} needs PySpark {text(feature.since)} ({feature.ticket}), and {version()} is installed. "
            f"{feature.instead}",
        )
