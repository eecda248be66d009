"""What is to be done about the savepoint objects of a job, as data. Every change may be repeated. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark_operator.api.spark_savepoint import SavepointOrigin, SparkSavepointSpec, SparkSavepointStatus
from statefulspark_operator.lifecycle.savepoints.objects import SavepointObject


@dataclass(frozen=True, slots=True)
class Hold:
    """Put the finalizer on an object, so that its deletion waits for the rules.

    Attributes:
        savepoint: The object.
    """

    savepoint: SavepointObject


@dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off a deleted object.

    Attributes:
        savepoint: The object.
    """

    savepoint: SavepointObject


@dataclass(frozen=True, slots=True)
class Dispose:
    """Delete the files of a deleted object's savepoint, and then release the object.

    Attributes:
        savepoint: The object.
        location: Folder of the savepoint.
    """

    savepoint: SavepointObject
    location: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Look at a savepoint on storage, and write into the object's status what was found.

    Attributes:
        savepoint: The object.
        location: Folder of the savepoint.
    """

    savepoint: SavepointObject
    location: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write an object's status.

    Attributes:
        savepoint: The object.
        status: The new status.
    """

    savepoint: SavepointObject
    status: SparkSavepointStatus


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; one that exists is not changed.

    Attributes:
        name: Its name.
        origin: What it is made for.
        spec: Its spec.
    """

    name: str
    origin: SavepointOrigin
    spec: SparkSavepointSpec


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; what becomes of its files, its disposal says.

    Attributes:
        savepoint: The object.
        why: The reason in a few words.
    """

    savepoint: SavepointObject
    why: str


Change = Hold | Release | Dispose | Adopt | Note | Create | Delete
