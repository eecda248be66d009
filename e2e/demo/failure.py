"""The one error of the demo: a sentence for the person who watches."""

from __future__ import annotations

from statefulspark import errors


class DemoFailedError(errors.StatefulSparkError):
    """The demo cannot go on.

    Operator action: do what the sentence says; the logs that it names tell more.
    """

    def __init__(self, message: str) -> None:
        super().__init__("DemoFailed", message)
