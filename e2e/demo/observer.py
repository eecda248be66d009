"""Looks at the job once a second: the resource, its events, what the sinks have committed, which snapshots exist.

What it saw before is kept here, so that each look returns only news besides the present state. Failures of single looks
are waited out: a look that fails changes nothing and the next one sees what it missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from oracle import results
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.storage import ObjectStore

from demo import failure, kubectl, resources, story, timeline

KINDS = "statefulsparkjobs,pods,events"
QUERIES = ("aircraft", "carriers")
FAILED_LOOKS_MAX = 20


@dataclass(frozen=True, slots=True)
class JobView:
    """The resource as a person reads it.

    Attributes:
        phase: `status.phase`, empty before the operator has seen it.
        message: `status.message`.
        restored_from: What the running driver started from.
        stalled: The operator has given up until somebody changes something.
        driver_pod: The pod of the newest driver, None while there is none.
        pods: Names of all pods of the job that exist and are not ending.
        has_standby: A standby is ready.
        is_blocked: The revision in the spec was refused.
    """

    phase: str = ""
    message: str = ""
    restored_from: str | None = None
    stalled: bool = False
    driver_pod: str | None = None
    pods: tuple[str, ...] = ()
    has_standby: bool = False
    is_blocked: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Attributes:
        seen: What the story needs to know.
        job: The resource.
        news: What happened since the look before, in the order of time.
    """

    seen: story.Seen
    job: JobView
    news: tuple[timeline.Mark, ...]


class Observer:
    """Sees everything through Kubernetes and the object store, and remembers it."""

    def __init__(self, kube: kubectl.Kubectl, *, output: ObjectStore, job_root: ObjectStore) -> None:
        """Look through these.

        Args:
            kube: For the job's namespace.
            output: The job's output folder.
            job_root: The job's own folder below the storage uri.
        """
        self._kube = kube
        self._sinks = {query: output.child(query) for query in QUERIES}
        self._job_root = job_root
        self._commits: dict[tuple[str, int, int], timeline.CommitPoint] = {}
        self._files: dict[tuple[str, int, int], str] = {}
        self._newest: dict[str, int] = dict.fromkeys(QUERIES, -1)
        self._events: set[str] = set()
        self._job = JobView()
        self._scored = 0
        self._version = 1
        self._failed_looks = 0
        self.manifests: dict[int, Manifest] = {}

    @property
    def commits(self) -> tuple[timeline.CommitPoint, ...]:
        """Every commit seen so far, in the order of time."""
        return tuple(sorted(self._commits.values(), key=lambda point: point.at))

    def commits_as_written(self) -> tuple[timeline.CommitPoint, ...]:
        """Return every commit with the time at which storage got its rows. Cost: a listing of the output."""
        written = {
            (query, found.key): found.modified_at for query, sink in self._sinks.items() for found in sink.list("")
        }
        return tuple(
            replace(point, written_at=written.get((point.query, self._files.get(key, ""))))
            for key, point in sorted(self._commits.items(), key=lambda item: item[1].at)
        )

    def look(self) -> Look:
        """Look once.

        Raises:
            DemoFailedError: Looks have failed many times in a row; the message is the last failure.
        """
        news: list[timeline.Mark] = []
        try:
            self._look_at_output()
            news += self._look_at_snapshots()
            news += self._look_at_cluster()
            self._failed_looks = 0
        except (failure.DemoFailedError, errors.TransientError, errors.StateUnknownError) as error:
            self._failed_looks += 1
            if self._failed_looks >= FAILED_LOOKS_MAX:
                raise failure.DemoFailedError(f"{FAILED_LOOKS_MAX} looks in a row failed: {error.message}") from error
        return Look(self._seen(), self._job, tuple(sorted(news, key=lambda mark: mark.at)))

    def _seen(self) -> story.Seen:
        points = self.commits
        return story.Seen(
            at=datetime.now(UTC),
            flights=sum(point.rows for point in points if point.query == "aircraft"),
            scored_flights=self._scored,
            epoch=max((point.epoch for point in points), default=0),
            version=self._version,
            driver_pod=self._job.driver_pod,
            last_commit_at=points[-1].at if points else None,
            has_standby=self._job.has_standby,
            is_blocked=self._job.is_blocked,
        )

    def _look_at_output(self) -> None:
        for query, sink in self._sinks.items():
            # The newest batch is read again: its scores are looked at until a newer one is there.
            found = results.read_commits(sink, after_batch=self._newest[query] - 1)
            for commit in found:
                self._remember(query, commit)
            if query == "carriers" and found and found[-1].files:
                self._look_at_scores(results.read_batch(sink, found[-1]))

    def _remember(self, query: str, commit: results.Commit) -> None:
        key = (query, commit.batch_id, commit.epoch)
        if key in self._commits:
            return
        rows = commit.rows if commit.batch_id > self._newest[query] else 0
        point = timeline.CommitPoint(commit.committed_at, query, commit.batch_id, commit.epoch, rows)
        self._commits[key] = point
        if commit.files:
            self._files[key] = commit.files[-1]
        self._newest[query] = max(self._newest[query], commit.batch_id)

    def _look_at_scores(self, batch: results.Batch) -> None:
        counted = [int(row.get("last_flight_id") or 0) for row in batch.rows]
        versions = [int(row.get("job_version") or 1) for row in batch.rows]
        self._scored = max([self._scored, *counted])
        self._version = max([self._version, *versions])

    def _look_at_snapshots(self) -> list[timeline.Mark]:
        marks = []
        for folder in (layout.CHECKPOINTS, layout.SAVEPOINTS):
            for name in self._job_root.list_names(folder):
                number = layout.parse_number(name.rstrip("/"))
                if number is None or number in self.manifests:
                    continue
                manifest = self._read_manifest(f"{folder}/{name.rstrip('/')}/_metadata.json")
                if manifest is not None:
                    self.manifests[manifest.id] = manifest
                    marks.append(snapshot_mark(manifest))
        return marks

    def _read_manifest(self, key: str) -> Manifest | None:
        try:
            return Manifest.parse(self._job_root.read(key), key)
        except errors.ObjectNotFoundError:
            return None  # Not complete yet, or pruned since it was listed.

    def _look_at_cluster(self) -> list[timeline.Mark]:
        objects = self._kube.list(KINDS)
        before, self._job = self._job, job_view(objects)
        marks = self._new_events(objects)
        if self._job.phase != before.phase:
            text = f"{before.phase} -> {self._job.phase}" if before.phase else self._job.phase
            marks.append(timeline.Mark(datetime.now(UTC), timeline.MarkKind.PHASE, text))
        return marks

    def _new_events(self, objects: Sequence[kubectl.Json]) -> list[timeline.Mark]:
        marks = []
        for event in objects:
            identity = kubectl.text(event, "metadata", "uid") or ""
            if event.get("kind") != "Event" or identity in self._events or _is_a_start_being_probed(event):
                continue
            self._events.add(identity)
            marks.append(event_mark(event))
        return marks


def job_view(objects: Sequence[kubectl.Json]) -> JobView:
    """Read the resource and its pods out of what the namespace holds."""
    job = kubectl.one(objects, "StatefulSparkJob", resources.JOB)
    pods = [candidate for candidate in objects if candidate.get("kind") == "Pod"]
    names = {kubectl.text(pod, "metadata", "name") or "" for pod in pods if not _is_ending(pod)}
    driver_pod = kubectl.text(job, "status", "driver", "pod")
    return JobView(
        phase=kubectl.text(job, "status", "phase") or "",
        message=kubectl.text(job, "status", "message") or "",
        restored_from=kubectl.text(job, "status", "restoredFrom"),
        stalled=kubectl.text(job, "status", "phase") == "Stalled",
        driver_pod=driver_pod if driver_pod in names else None,
        pods=tuple(sorted(names)),
        has_standby=kubectl.text(job, "status", "standby", "state") == "Ready",
        is_blocked=kubectl.text(job, "status", "upgrade", "state") == "Blocked",
    )


def event_mark(event: kubectl.Json) -> timeline.Mark:
    """Say in words what a Kubernetes event says."""
    stamp = next(
        filter(None, (kubectl.text(event, *path) for path in (("lastTimestamp",), ("eventTime",)))),
        kubectl.text(event, "metadata", "creationTimestamp"),
    )
    kind, name = kubectl.text(event, "involvedObject", "kind"), kubectl.text(event, "involvedObject", "name")
    text = f"{kubectl.text(event, 'reason')}: {kubectl.text(event, 'message')} ({kind} {name})"
    at = datetime.fromisoformat(stamp) if stamp else datetime.now(UTC)
    return timeline.Mark(at, timeline.MarkKind.EVENT, " ".join(text.split()))


def snapshot_mark(manifest: Manifest) -> timeline.Mark:
    """Say in words what a manifest says."""
    is_savepoint = manifest.kind is SnapshotKind.SAVEPOINT
    kind = timeline.MarkKind.SAVEPOINT if is_savepoint else timeline.MarkKind.CHECKPOINT
    batches = "+".join("-" if query.batch_id < 0 else str(query.batch_id) for query in manifest.queries)
    size_mib = manifest.size_bytes / 2**20
    text = f"{manifest.label}, {manifest.trigger.value}, batches {batches}, {size_mib:.1f} MiB"
    return timeline.Mark(manifest.completed_at, kind, text)


def _is_a_start_being_probed(event: kubectl.Json) -> bool:
    """Tell whether the kubelet only says that a container that starts is not up yet; it does every two seconds."""
    message = kubectl.text(event, "message") or ""
    return kubectl.text(event, "reason") == "Unhealthy" and message.startswith(("Startup probe", "Readiness probe"))


def _is_ending(pod: kubectl.Json) -> bool:
    ended = kubectl.text(pod, "status", "phase") in ("Succeeded", "Failed")
    return ended or kubectl.text(pod, "metadata", "deletionTimestamp") is not None
