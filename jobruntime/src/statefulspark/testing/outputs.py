"""The visible output of a job under test: the rows that its sinks have committed.

Each sink of a query is replaced by the files sink, which shows its rows when the replaced one would. A function that is a
sink (`ss.sinks.DriverSink`) stays, since it is the job's own code.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyarrow import parquet

from statefulspark import jsontext, rowvalues, storage
from statefulspark.declaration import Output, QueryOutputs, read_result
from statefulspark.operatorstate.sink import DriverSink
from statefulspark.planning import carry
from statefulspark.sinks import base, visibility
from statefulspark.sinks.files import FilesSink, commits

_PLAIN = "output"
"""Uid of the sink of a query that writes without one of ours, for example to the console."""
_LOCAL = storage.StorageOptions(allow_local_files=True)


def replaced(result: object, query: str, folder: Path) -> tuple[Output, ...]:
    """Return the outputs of a query with sinks that a test can read, without a trigger.

    Args:
        result: What the query function has returned.
        query: Its uid.
        folder: The folder that has a folder for each sink.
    """
    written = read_result(result, query)
    if not isinstance(written, QueryOutputs):
        stream = carry.stream_of(written)
        return (Output(stream.frame, _files(folder / _PLAIN, visibility.Visibility.BATCH), _PLAIN, stream.mode, None),)
    return tuple(
        replace(output, trigger=None)
        if isinstance(output.sink, DriverSink)
        else replace(output, sink=_files(folder / output.uid, visibility.sink_visibility(output.sink)), trigger=None)
        for output in written.outputs
    )


def _files(folder: Path, visible: visibility.Visibility) -> base.TwoPhaseSink:
    return base.machine_of(FilesSink(folder.as_uri(), visible=visible))


def shows_batches(output: Output) -> bool:
    """Tell whether readers see a batch as soon as Spark has committed it."""
    return visibility.sink_visibility(output.sink) is visibility.Visibility.BATCH


def read(folder: Path) -> list[dict[str, object]]:
    """Return the rows that readers see, in the order of batches; those of one partition are in their order.

    The files of a batch are put in the order of their rows, so that two runs of a test return the same.
    """
    store = storage.open_store(folder.as_uri(), _LOCAL)
    rows: list[dict[str, object]] = []
    for batch in commits.read_commits(store):
        parts = [rowvalues.dicts(parquet.read_table(folder / part.path)) for part in batch.files]
        for part in sorted(parts, key=jsontext.dumps):
            rows.extend(part)
    return rows
