"""Makes the story happen: looks once a second, does what the story says is next, and shows it.

It holds what happens in between: marks of the person-visible steps, the logs, the last look.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from oracle import truth
from oracle.compare import Comparison, compare
from oracle.results import read_batches
from statefulspark.contract import layout

from demo import cluster, console, failure, logs, observer, progress, resources, settings, setup, story, timeline

LOOK_INTERVAL_S = 1.0
CHAPTERS = {
    story.Stage.STREAMING: "The job streams; at a third of the flights its driver will be killed",
    story.Stage.RECOVERED: "It goes on where it was; at two thirds it will be changed to version 2",
    story.Stage.UPGRADED: "Version 2 goes on with the state of version 1, to the end of the input",
}


@dataclass
class Run:
    """One run of the story against a cluster that is ready.

    Attributes:
        connection: The cluster and the S3 server.
        chosen: What the demo was told.
        show: Where a person watches.
        followers: Keep the logs.
        started_at: When the resource was applied.
        marks: What happened so far.
    """

    connection: cluster.Connection
    chosen: settings.Settings
    show: console.Console
    followers: logs.LogFollower
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    marks: list[timeline.Mark] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open what the run looks at."""
        self._kube = self.connection.kubectl(self.chosen.namespace)
        state = self.connection.open_store(resources.STATE)
        self._output = self.connection.open_store(resources.OUTPUT)
        self.observer = observer.Observer(
            self._kube,
            output=self._output,
            job_root=state.child(layout.job_prefix(self.chosen.namespace, resources.JOB)),
        )

    def play(self, total: int) -> None:
        """Apply the job and tell the story to its end.

        Raises:
            DemoFailedError: Something did not happen in time, or the operator gave up.
        """
        setup.apply_job(self.connection, self.chosen)
        self._mark(timeline.MarkKind.APPLIED, f"{resources.RESOURCE} applied")
        state = story.begin(total, self.started_at, self.chosen.patience)
        while state.stage is not story.Stage.FINISHED:
            look = self._look(state)
            self._check(state, look)
            before = state.stage
            state, action = story.advance(state, look.seen)
            self._act(action, look)
            if state.stage is not before and state.stage in CHAPTERS:
                self.show.title(CHAPTERS[state.stage])
            time.sleep(LOOK_INTERVAL_S)
        self.show.end_status()

    def history(self) -> timeline.Timeline:
        """Return what happened so far."""
        marks = tuple(sorted(self.marks, key=lambda mark: mark.at))
        return timeline.Timeline(self.observer.commits, marks, self.observer.first_version_2_epoch)

    def compare(self, expected: truth.Truth) -> Comparison:
        """Read everything that was committed and compare it with the truth."""
        found = {query: read_batches(self._output.child(query)) for query in observer.QUERIES}
        return compare(expected, aircraft=found["aircraft"], carriers=found["carriers"])

    def _look(self, state: story.Story) -> observer.Look:
        look = self.observer.look()
        self.followers.follow(self._kube, look.job.driver_pods)
        for mark in look.news:
            self.marks.append(mark)
            self.show.say(progress.news(mark, self.started_at))
        commits, snapshots = self.observer.commits, self.observer.manifests
        newest = max(snapshots, default=None)
        self.show.status(progress.line(state, look, started_at=self.started_at, commits=commits, last_snapshot=newest))
        return look

    def _check(self, state: story.Story, look: observer.Look) -> None:
        if look.job.stalled:
            raise failure.DemoFailedError(f"The operator gave up: {look.job.message}")
        late = story.overdue(state, look.seen)
        if late:
            phase = f" The job is {look.job.phase or 'not seen by the operator'}: {look.job.message or 'no message'}"
            raise failure.DemoFailedError(late + phase)

    def _act(self, action: story.Action, look: observer.Look) -> None:
        match action:
            case story.Action.KILL_DRIVER:
                pod = look.seen.driver_pod or ""
                self.show.title("The driver is killed, without grace")
                self.show.say("$ " + self._kube.shown("delete", "pod", pod, "--grace-period=0", "--force"))
                self._mark(timeline.MarkKind.KILLED, f"pod {pod} deleted with grace period 0")
                self._kube.delete_pod_now(pod)
            case story.Action.CHANGE_JOB:
                self.show.title("The job is changed to version 2; the operator takes a savepoint by itself")
                self.show.say(f"spec.job.file: {resources.VERSION_2_FILE}")
                self._mark(timeline.MarkKind.CHANGED, f"spec.job.file set to {resources.VERSION_2_FILE}")
                self._kube.patch(resources.RESOURCE, resources.change_to_version_2())
            case story.Action.FINISH:
                self._mark(timeline.MarkKind.FINISHED, "every flight is out of both queries")
            case story.Action.WAIT:
                pass

    def _mark(self, kind: timeline.MarkKind, text: str) -> None:
        self.marks.append(timeline.Mark(datetime.now(UTC), kind, text))
