"""Every error of the product, as one small tree.

A caller catches by what it can do about the failure, never by where it came from:

```
StatefulSparkError                 carries a PascalCase reason and a sentence for people
├── SpecRejectedError              the request itself is wrong: wait until somebody changes it
├── TransientError                 the world is in the way: try again after `retry_after_s`
├── PreconditionFailedError        the world moved on: look again and decide anew
│   ├── FencedError                a newer epoch owns the job: stop, touch nothing
│   └── ObjectChangedError         a conditional write or delete found another body than the one that was looked at
├── StateUnknownError              it cannot be told what is true: stop and ask, never assume "absent"
│   └── SnapshotCorruptError       a snapshot exists and does not verify
│       └── FormatVersionError     a document is whole, and of a version that this release does not read
├── ObjectNotFoundError            proven absence of one object
├── ObjectExistsError              a conditional create found the name taken
├── UserCodeError                  code of the job raised something; what it was, and where
└── InternalError                  a bug of ours
```

Messages say what failed, on which object, and what to do. This module imports nothing.
"""

from __future__ import annotations


class StatefulSparkError(Exception):
    """Root of all errors raised on purpose.

    Attributes:
        reason: PascalCase word that names the class of failure in conditions, events, metrics and exit reports.
        message: One sentence for people: what failed, the value, what to do.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class SpecRejectedError(StatefulSparkError):
    """What was asked for can never work as written.

    Operator action: change the value that the message names; retrying unchanged fails again.
    """


class TransientError(StatefulSparkError):
    """Something outside is unavailable now and may be back later.

    Operator action: none if it passes; otherwise look at the system that the message names.
    """

    def __init__(self, reason: str, message: str, retry_after_s: float = 5.0) -> None:
        super().__init__(reason, message)
        self.retry_after_s = retry_after_s


class PreconditionFailedError(StatefulSparkError):
    """The world changed between the look and the act; nothing was done.

    Operator action: none; the caller looks again and decides anew.
    """


class FencedError(PreconditionFailedError):
    """A newer driver owns the job; this one must not write any more.

    Operator action: none; the newer driver goes on from the latest completed checkpoint.
    """

    def __init__(self, message: str) -> None:
        super().__init__("Fenced", message)


class ObjectChangedError(PreconditionFailedError):
    """A conditional write or delete found another body than the one that was looked at, or none.

    Operator action: none; the caller looks again and decides anew.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(
            "ObjectChanged", f"The object {uri} is not the one that was looked at any more; it was left alone."
        )
        self.uri = uri


class StateUnknownError(StatefulSparkError):
    """It could not be found out what is true, so nothing may be assumed.

    Operator action: restore access to what the message names; nothing was changed.
    """


class SnapshotCorruptError(StateUnknownError):
    """A snapshot is listed and does not verify: files are missing, truncated or different.

    Operator action: keep the files for analysis and restore from another snapshot; `statefulspark checkpoint verify`
    lists every broken file.
    """


class FormatVersionError(SnapshotCorruptError):
    """A stored document has a version that this release cannot read; it is whole, so nothing may go on without it.

    Operator action: run the release that wrote it, or a newer one. To go back to this release, start from a snapshot by
    name that it can read.
    """


class ObjectNotFoundError(StatefulSparkError):
    """One object is proven to be absent.

    Operator action: depends on the caller; by itself it is an answer, not a fault.
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
    """Code of the job, which the product had called, raised; nothing else is ever blamed on the job's code.

    It is made where the call is made (`usercode.raised`), so it needs no look at stacks to tell whose failure it is.

    Operator action: correct the job at the file and line, or what its code talks to.

    Attributes:
        raised: What the code raised.
        file: The file of the job in which it was raised, or through which it passed last; None if that is not known.
        line: The line in that file; None if that is not known.
    """

    def __init__(
        self, reason: str, message: str, *, raised: BaseException, file: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(reason, message)
        self.raised = raised
        self.file = file
        self.line = line


class InternalError(StatefulSparkError):
    """A promise inside our own code is broken.

    Operator action: report it with the log; the state on storage stays as it was.
    """
