"""All errors of the product, as one small tree.

The type of an error says what the caller can do about it, not where it came from:

```
StatefulSparkError                 has a PascalCase reason and a sentence for people
├── SpecRejectedError              the request itself is wrong: wait until it is changed
│   ├── InvalidArgumentError       a call of the library has a wrong argument; also a ValueError
│   │   └── ParameterMissingError  a parameter of the job is not set; also a KeyError
│   ├── InvalidTypeError           an argument has a wrong type; also a TypeError
│   └── CredentialsRefusedError    its credentials are read from a file: ask again for `GRACE_S`, then it is wrong
├── TransientError                 a temporary failure: try again later
├── PreconditionFailedError        the state has changed: read it again and decide again
│   ├── FencedError                a newer epoch owns the job: stop, write nothing
│   └── ObjectChangedError         a conditional write or delete found another body than the one that was read
├── StateUnknownError              the state cannot be determined: stop and ask, never assume "absent"
│   └── SnapshotCorruptError       a snapshot exists and does not verify
│       └── FormatVersionError     a document is intact, but this release cannot read its version
├── ObjectNotFoundError            proven absence of one object
├── ObjectExistsError              a conditional create found an existing object
├── UserCodeError                  the code of the job raised an exception
└── InternalError                  a bug of the product
```

Messages say what failed, on which object, and what to do. This module imports nothing. `__all__` has what a job may see and
catch; the others stay inside the engine.
"""

from __future__ import annotations

__all__ = [
    "FencedError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "ParameterMissingError",
    "SnapshotCorruptError",
    "SpecRejectedError",
    "StateUnknownError",
    "StatefulSparkError",
    "TransientError",
    "UserCodeError",
]


class StatefulSparkError(Exception):
    """Base class of all errors that the product raises on purpose.

    Attributes:
        reason: PascalCase word that names the class of failure in conditions, events, metrics and exit reports.
        message: One sentence for people: what failed, the value, what to do.
    """

    def __init__(self, reason: str, message: str) -> None:
        # Half a surrogate, as of cut JSON or of a file's name, is no Unicode: no report and no answer could say it.
        self.message = message.encode(errors="backslashreplace").decode()
        self.reason = reason
        super().__init__(f"{reason}: {self.message}")


class SpecRejectedError(StatefulSparkError):
    """The request can never work as written.

    Operator action: change the value that the message names; retrying unchanged fails again.
    """


class InvalidArgumentError(SpecRejectedError, ValueError):
    """A call of the library has an argument that it cannot use.

    Operator action: correct the call that the message names; the job fails again unchanged.
    """


class ParameterMissingError(InvalidArgumentError, KeyError):
    """The job asks for a parameter that is not set, without a default.

    Operator action: set the parameter that the message names.
    """

    def __str__(self) -> str:  # A KeyError shows its argument in quotes.
        return f"{self.reason}: {self.message}"


class InvalidTypeError(SpecRejectedError, TypeError):
    """A call of the library has an argument of a wrong type.

    Operator action: correct the call that the message names; the job fails again unchanged.
    """


class CredentialsRefusedError(SpecRejectedError):
    """A system refuses credentials that are read from a file, which a rotation may be about to replace.

    Who repeats the request asks again for `GRACE_S`, with what the file has then. After that it is wrong as written.

    Operator action: correct the Secret of the file that the message names.

    Attributes:
        GRACE_S: How long a changed Secret may take to arrive in the file. Kubelet takes up to two minutes, by default.
    """

    GRACE_S = 180.0


class TransientError(StatefulSparkError):
    """An external system is unavailable now and may be available later.

    Operator action: none if it passes; otherwise check the system that the message names.
    """


class PreconditionFailedError(StatefulSparkError):
    """The state changed between the read and the action; nothing was done.

    Operator action: none; the caller reads again and decides again.
    """


class FencedError(PreconditionFailedError):
    """A newer driver owns the job; this one must not write any more.

    Operator action: none; the newer driver continues after the newest committed batch.
    """

    def __init__(self, message: str) -> None:
        super().__init__("Fenced", message)


class ObjectChangedError(PreconditionFailedError):
    """A conditional write or delete found another body than the one that was read, or no object.

    Operator action: none; the caller reads again and decides again.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(
            "ObjectChanged", f"The object {uri} has changed since it was read; it was not written or deleted."
        )
        self.uri = uri


class StateUnknownError(StatefulSparkError):
    """The state could not be determined, so nothing may be assumed.

    Operator action: restore access to what the message names; nothing was changed.
    """


class SnapshotCorruptError(StateUnknownError):
    """A snapshot is listed and does not verify: files are missing, truncated or different.

    Operator action: keep the files for analysis and restore from another snapshot; `statefulspark checkpoint verify`
    lists every broken file.
    """


class FormatVersionError(SnapshotCorruptError):
    """A stored document has a version that this release cannot read; it is intact, so no start may ignore it.

    Operator action: run the release that wrote it, or a newer one. To go back to this release, start from a named
    snapshot that it can read.
    """


class ObjectNotFoundError(StatefulSparkError):
    """One object is proven to be absent.

    Operator action: depends on the caller; by itself it is an answer, not a failure.
    """

    def __init__(self, uri: str) -> None:
        super().__init__("ObjectNotFound", f"There is no object {uri}.")
        self.uri = uri


class ObjectExistsError(StatefulSparkError):
    """A conditional create found that the object exists already.

    Operator action: none; exactly one of several writers wins, and this one did not.
    """

    def __init__(self, uri: str) -> None:
        super().__init__("ObjectExists", f"The object {uri} exists already and was not overwritten.")
        self.uri = uri


class UserCodeError(StatefulSparkError):
    """A call of the job's code raised an exception; no other error is attributed to the job's code.

    It is created where the call is made (`usercode.raised`), so no stack is read to tell whose failure it is.

    Operator action: correct the job at the file and line, or the system that its code uses.

    Attributes:
        raised: The exception of the code.
        file: The innermost file of the job in its traceback; None if unknown.
        line: The line in that file; None if unknown.
    """

    def __init__(
        self, reason: str, message: str, *, raised: BaseException, file: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(reason, message)
        self.__cause__ = self.raised = raised
        self.file = file
        self.line = line


class InternalError(StatefulSparkError):
    """A bug of the product: its own code broke an assumption.

    Operator action: report it with the log; the state on storage stays as it was.
    """
