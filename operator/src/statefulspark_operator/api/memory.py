"""How large an executor's pod is: the heap of its JVM, and beside it the JVM's own needs and Python with its state. Pure."""

from __future__ import annotations

from statefulspark_operator.api import quantities
from statefulspark_operator.api.spec import Executor

CPU, MEMORY = "cpu", "memory"
JVM_SHARE = 10
"""Beside the heap a JVM needs a tenth of it, and at least `JVM_MIN_MIB`: the defaults of Spark."""
JVM_MIN_MIB = 384
PYTHON_MIB = 1024
"""A Python worker, one for each task that runs at the same time: half for keyed state, half for the rest."""
PYTHON_MIN_MIB = 128
"""Less is not enough for an interpreter with Arrow."""

_MIB = 1 << 20


def quantity_mib(text: str) -> int:
    """Return an amount of memory in Kubernetes' notation in MiB, rounded down.

    Raises:
        ValueError: It is none.
    """
    try:
        return int(quantities.amount(text)) // _MIB
    except ValueError as error:
        raise ValueError(f"{text!r} is no amount of memory; write it like 4Gi or 512Mi") from error


def jvm_mib(executor: Executor) -> int:
    """Return what the JVM needs beside its heap: a tenth of it, and at least 384 MiB."""
    return max(JVM_MIN_MIB, quantity_mib(executor.heap) // JVM_SHARE)


def given(executor: Executor) -> str | None:
    """Return the memory of the container that the spec names: the limit, or else the request."""
    resources = executor.resources
    if resources is None:
        return None
    return (resources.limits or {}).get(MEMORY) or (resources.requests or {}).get(MEMORY)


def overhead_mib(executor: Executor) -> int:
    """Return what is beside the heap: the JVM's own, and 1 GiB for each core; or the rest of the memory that the spec names.

    Args:
        executor: The executors of a spec, in which there is no `problem`.
    """
    total = given(executor)
    if total is None:
        return jvm_mib(executor) + executor.cores * PYTHON_MIB
    return quantity_mib(total) - quantity_mib(executor.heap)


def worker_mib(executor: Executor) -> int:
    """Return the memory of each Python worker, of which keyed state takes half at most.

    Args:
        executor: The executors of a spec, in which there is no `problem`.
    """
    return (overhead_mib(executor) - jvm_mib(executor)) // executor.cores


def problem(executor: Executor) -> str | None:
    """Return why the memory of an executor cannot be what the spec says, and what to do; None if it can."""
    resources, total = executor.resources, given(executor)
    if resources is None or total is None:
        return None
    requested = (resources.requests or {}).get(MEMORY)
    try:
        size = quantity_mib(total)
        if requested is not None and quantity_mib(requested) != size:
            return (
                f"executor.resources requests {requested} of memory and limits it to {total}, but Spark gives an executor "
                "one value for both; give only the limit"
            )
    except ValueError as error:
        return f"executor.resources: {error}"
    least = quantity_mib(executor.heap) + jvm_mib(executor) + executor.cores * PYTHON_MIN_MIB
    if size >= least:
        return None
    return (
        f"executor.resources gives {total} of memory, but a heap of {executor.heap}, the JVM beside it and "
        f"Python for {executor.cores} {'core' if executor.cores == 1 else 'cores'} need {least}Mi; raise the limit, or "
        "lower executor.heap"
    )
