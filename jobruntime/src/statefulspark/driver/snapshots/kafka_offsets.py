"""Publishes the offsets of Kafka sources to consumer groups, so that tools which monitor lag can see the job.

One option of the source enables it:

```python
spark.readStream.format("kafka").option("subscribe", "clicks").option(GROUP_OPTION, "clicks-job")...
```
After a checkpoint is complete, the offsets that its manifest holds are committed to that group, with the source's own
`kafka.*` options (servers, security). Nothing is ever read back: a start uses the checkpoint only, so a group that is
late, lost or was moved has no effect on the job. The group must have no members; a consumer of its own group beside the job
would be refused as well. The admin client comes from Spark's connector.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from py4j.protocol import Py4JError, Py4JJavaError

from statefulspark import errors
from statefulspark.checkpoint import sparklog
from statefulspark.engine import session as spark_session
from statefulspark.planning import probe

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

    from statefulspark.contract.manifest import QueryEntry

GROUP_OPTION = "statefulspark.publish.offsets.group"
"""Option of a Kafka source: the consumer group that its offsets are published to."""
_CLIENT_PREFIX = "kafka."
_LIMITS = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """One source whose offsets are published.

    Attributes:
        query_uid: The query that reads it.
        line: Its line in the offset log, from 0.
        group: The consumer group.
        client: Settings of Kafka's client.
    """

    query_uid: str
    line: int
    group: str
    client: Mapping[str, str] = field(repr=False, compare=False)


def targets(query_uid: str, frame: DataFrame) -> tuple[OffsetTarget, ...]:
    """Return the sources of a query whose offsets are to be published.

    Args:
        query_uid: The query's uid.
        frame: The stream that the query writes.

    Raises:
        SpecRejectedError: `OffsetsGroupInvalid`: the option is empty, or is set on a source that is not Kafka.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    relations = [node for node in probe.nodes(analyzed) if str(node.getClass().getSimpleName()) in probe.RELATIONS]
    offset_targets = []
    for line, relation in enumerate(relations):
        options = {}  # Their names are in lower case.
        if str(relation.getClass().getSimpleName()) != "StreamingRelation":
            case_sensitive = relation.extraOptions().asCaseSensitiveMap()
            options = {str(key): str(case_sensitive[key]) for key in case_sensitive}
        group = options.get(GROUP_OPTION)
        if group is None:
            continue
        name = str(relation.sourceName())
        if not group.strip() or name != "kafka":
            raise errors.SpecRejectedError(
                "OffsetsGroupInvalid",
                f"The query {query_uid!r} sets {GROUP_OPTION} to {group!r} on a source of the format {name}; it takes the "
                "name of a consumer group, on a source of the format kafka.",
            )
        client = {
            key.removeprefix(_CLIENT_PREFIX): value for key, value in options.items() if key.startswith(_CLIENT_PREFIX)
        }
        offset_targets.append(OffsetTarget(query_uid, line, group, client))
    return tuple(offset_targets)


class OffsetPublisher:
    """Commits offsets to the groups of a job's sources; called from one thread."""

    def __init__(self, session: SparkSession, offset_targets: Sequence[OffsetTarget]) -> None:
        """Keep the sources; no request is sent to Kafka yet."""
        jvm = spark_session.jvm_view(session)
        self._jvm = jvm
        self._targets = tuple(offset_targets)
        self._admins: dict[OffsetTarget, JavaObject] = {}
        self._failing: set[OffsetTarget] = set()

    def publish(self, entries: Sequence[QueryEntry]) -> None:
        """Commit the offsets of a completed checkpoint.

        A failure is logged once until it is over, and the job continues: the next checkpoint publishes newer offsets.

        Args:
            entries: The queries of the checkpoint's manifest.
        """
        lines = {entry.uid: entry.offsets for entry in entries}
        for target in self._targets:
            offsets = lines.get(target.query_uid, ())
            if target.line < len(offsets):
                line = offsets[target.line]
                positions = sparklog.kafka_positions(line)
                if positions is None:
                    raise sparklog.unreadable(
                        f"The line {line[:200]!r} of an offset log", "it has no positions of Kafka"
                    )
                self._publish_one(target, positions)

    def close(self) -> None:
        """Close the connections."""
        while self._admins:
            self._admins.popitem()[1].close()

    def _publish_one(self, target: OffsetTarget, offsets: Mapping[str, Mapping[int, int]]) -> None:
        try:
            self._alter(target, offsets)
        except Py4JError as error:
            self._admins.pop(target, None)
            if target not in self._failing:
                self._failing.add(target)
                why = str(error)
                if isinstance(error, Py4JJavaError):
                    why = str((error.java_exception.getCause() or error.java_exception).toString())
                extra = {"query": target.query_uid, "group": target.group, "why": why}
                _log.warning("offsets could not be published; the job continues without them", extra=extra)
        else:
            self._failing.discard(target)

    def _alter(self, target: OffsetTarget, offsets: Mapping[str, Mapping[int, int]]) -> None:
        positions = self._jvm.java.util.HashMap()
        for topic, partitions in offsets.items():
            for partition, offset in partitions.items():
                topic_partition = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
                positions.put(topic_partition, self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset))
        if not positions.isEmpty():
            if target not in self._admins:
                properties = self._jvm.java.util.Properties()
                for key, value in {**target.client, **_LIMITS}.items():
                    properties.setProperty(key, value)
                self._admins[target] = cast(
                    "JavaObject", self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
                )
            self._admins[target].alterConsumerGroupOffsets(target.group, positions).all().get()
