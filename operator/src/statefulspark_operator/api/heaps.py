"""The heap of a JVM: an amount in Kubernetes' notation, where Spark has a notation of its own. Pure.

`512m` is 512 MiB for Spark and half a byte for Kubernetes, so Spark's notation is refused, and the message has
the amount that it stands for.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from statefulspark_operator.api import base, quantities

LEAST = "450Mi"
"""Spark starts with no smaller heap: `spark.testing.reservedMemory` of 300 MiB and a half (4.2's `UnifiedMemoryManager`)."""
DEFAULT = "1Gi"
"""The heap of Spark's own default."""

_SPARK = r"^[0-9]+[kmgt]$"
_SPARK_MESSAGE = "is Spark's notation; Kubernetes writes it as"
_MESSAGE = (
    f"is no heap; write a Kubernetes quantity such as 1Gi or 1536Mi, and {LEAST} at least, which Spark needs to start"
)


def _check(text: str) -> str:
    try:
        if quantities.amount(text) >= quantities.amount(LEAST):
            return text
    except ValueError:
        pass
    if re.fullmatch(_SPARK, text, re.ASCII):
        raise ValueError(f"{text} {_SPARK_MESSAGE} {text.upper()}i")
    raise ValueError(f"{text} {_MESSAGE}")


_TEXT = "string(self)"
Heap = Annotated[
    base.Quantity,
    AfterValidator(_check),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [
                {
                    "rule": f"isQuantity({_TEXT}) && !quantity({_TEXT}).isLessThan(quantity('{LEAST}'))",
                    "message": f"the heap {_MESSAGE}",
                    "messageExpression": f"{_TEXT} + ({_TEXT}.matches('{_SPARK}') ? "
                    f'" {_SPARK_MESSAGE} " + {_TEXT}.upperAscii() + "i" : " {_MESSAGE}")',
                }
            ],
        }
    ),
]
"""A heap such as `1Gi` or `1536Mi`."""

BELOW_LIMIT_MESSAGE = (
    "the heap must be smaller than the memory limit of its container, which has to have room for Python and the JVM's own "
    "needs, too; raise resources.limits.memory, or lower heap"
)


_HEAP, _LIMIT = f"(has(self.heap) ? string(self.heap) : '{DEFAULT}')", "string(self.resources.limits['memory'])"
BELOW_LIMIT = (
    "!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) "
    f"|| !isQuantity({_LIMIT}) || !isQuantity({_HEAP}) || quantity({_HEAP}).isLessThan(quantity({_LIMIT}))"
)
"""A CEL rule for what has `heap` and `resources`."""
