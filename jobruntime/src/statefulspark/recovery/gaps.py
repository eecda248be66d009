"""Gaps in the logs of a query, behind its newest committed batch: what Spark fails at in every start.

An entry is gone although a later one is there. Spark numbers batches, and the entries of a file source, one after the other,
and reads them back that way. A driver that goes on over a replica that lags, or over a backup, writes behind what is
missing there. What its newest committed batch needs may be whole all the same; what lies behind the gap can never be read.

Or a batch was planned while Kafka had fewer records than the job has read, as after an election of a replica that lags. Its
entry goes back, so Spark refuses to run it, also after the records are there again.

In both cases a start makes a copy, and leaves behind what follows. This module only reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from statefulspark.checkpoint import closure, listing, read_cache, sparklog
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry


def first_batch_gap(planned: Collection[int], committed: int) -> str | None:
    """Return the first entry that is missing between the newest commit and the batch that was planned last.

    A batch is planned when the one before it is committed, so that one at most waits for its commit.

    Args:
        planned: The batches in the offset log.
        committed: The newest committed batch; -1 before the first.
    """
    following = committed + 1
    if max(planned, default=-1) <= following:
        return None
    return f"commits/{following}" if following in planned else f"offsets/{following}"


def first_source_gap(entries: Collection[int], position: int) -> int | None:
    """Return the first number that is missing in the log of a file source after a position.

    Args:
        entries: The numbers of its entries, compact ones too.
        position: Up to which entry the newest committed batch has read.
    """
    return next((number for number in range(position + 1, max(entries, default=-1)) if number not in entries), None)


def first_way_back(committed: Sequence[str], planned: Sequence[str]) -> str | None:
    """Return the first Kafka partition that a planned batch is to read backwards, or not to read at all any more.

    Args:
        committed: What the newest committed batch has read, a line per source.
        planned: What the batch after it is to read.
    """
    for line, next_line in zip(committed, planned, strict=False):
        positions, ends = sparklog.kafka_positions(line) or {}, sparklog.kafka_positions(next_line)
        for topic, partitions in positions.items():
            for partition, position in partitions.items():
                if ends is not None and ends.get(topic, {}).get(partition, -1) < position:
                    return f"{topic}-{partition}"
    return None


def find(store: read_cache.ReadCache, generation: int, queries: Iterable[QueryEntry]) -> str | None:
    """Tell why a query cannot go on behind its newest committed batch in its generation; None if it can.

    Cost: nothing where `head.inspect` has read the generation, unless there is a gap.

    Args:
        store: The job's root.
        generation: The one in use.
        queries: Its queries at their newest committed batches.
    """
    for query in queries:
        path = layout.query_root(generation, query.uid)
        planned = [name.number for name in map(sparklog.parse_log_file, store.list_names(f"{path}/offsets")) if name]
        missing = first_batch_gap(planned, query.batch_id) or _find_source_gap(store, path, query)
        if missing is not None:
            return (
                f"{store.uri}/{path}/{missing} does not exist, although a later entry does: storage has lost objects, as a "
                f"replica that lags or a backup does. Query {query.uid!r} continues after batch {query.batch_id}, and reads "
                "the input of the later batches again."
            )
        partition = _find_way_back(store, path, query) if query.batch_id + 1 in planned else None
        if partition is not None:
            return (
                f"{store.uri}/{path}/offsets/{query.batch_id + 1} was planned while the Kafka partition {partition} had "
                f"fewer records than the job has read. Query {query.uid!r} continues after batch {query.batch_id}, and "
                "plans its next batch again."
            )
    return None


def _find_way_back(store: read_cache.ReadCache, path: str, query: QueryEntry) -> str | None:
    key = f"{path}/offsets/{query.batch_id + 1}"
    return first_way_back(query.offsets, sparklog.parse_offsets(store.read(key), f"{store.uri}/{key}"))


def _find_source_gap(store: read_cache.ReadCache, path: str, query: QueryEntry) -> str | None:
    listed = listing.below(store, path)
    for source, position in closure.source_positions(listed, query.offsets).items():
        folder = f"sources/{source}/"
        names = (sparklog.parse_log_file(key.removeprefix(folder)) for key in listed if key.startswith(folder))
        entries = {name.number for name in names if name is not None}
        missing = first_source_gap(entries, position) if position is not None else None
        while missing is not None and listing.look_up(
            store, path, (f"{folder}{missing}", f"{folder}{missing}.compact")
        ):
            entries.add(missing)  # The listing lags.
            missing = first_source_gap(entries, position or 0)
        if missing is not None:
            return f"{folder}{missing}"
    return None
