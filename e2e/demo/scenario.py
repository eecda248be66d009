"""Makes the story happen: looks once a second, does what the story says is next, and shows it.

It holds what happens in between: marks of the person-visible steps, the logs, the last look.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from oracle import truth
from oracle.compare import Comparison, compare
from oracle.results import read_batches
from statefulspark.contract import layout

from demo import (
    cluster,
    console,
    failure,
    kubectl,
    logs,
    observer,
    progress,
    resources,
    settings,
    setup,
    story,
    timeline,
)

LOOK_INTERVAL_S = 1.0
CHAPTERS = {
    story.Stage.STREAMING: "The job streams; soon its driver will be killed",
    story.Stage.RECOVERED: "It goes on where it was; from now on it keeps a standby, and is killed again once that is ready",
    story.Stage.TAKEN_OVER: "The standby goes on as the driver",
    story.Stage.BLOCKED: "The broken version was refused before it ran; the job has not noticed",
    story.Stage.UPGRADED: "Version 2 goes on with the state of version 1",
    story.Stage.RESTARTED: "The same goes on to the end of the input",
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
            if state.stage is not before and state.stage is story.Stage.BLOCKED:
                self._mark(timeline.MarkKind.BLOCKED, "the broken version is blocked")
            time.sleep(LOOK_INTERVAL_S)
        self.show.end_status()

    def history(self) -> timeline.Timeline:
        """Return what happened so far."""
        marks = tuple(sorted(self.marks, key=lambda mark: mark.at))
        return timeline.Timeline(self.observer.commits_as_written(), marks)

    def compare(self, expected: truth.Truth) -> Comparison:
        """Read everything that was committed and compare it with the truth."""
        found = {query: read_batches(self._output.child(query)) for query in observer.QUERIES}
        return compare(expected, aircraft=found["aircraft"], carriers=found["carriers"])

    def _look(self, state: story.Story) -> observer.Look:
        look = self.observer.look()
        self.followers.follow(self._kube, look.job.pods)
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
                self._kill(timeline.MarkKind.KILLED, "The driver is killed, without grace", look)
            case story.Action.KEEP_STANDBY:
                self._change(timeline.MarkKind.GUARDED, resources.keep_standby())
            case story.Action.KILL_GUARDED:
                self._kill(timeline.MarkKind.KILLED_GUARDED, "The driver is killed, and has a standby", look)
            case story.Action.BREAK_JOB:
                self.show.title("A version that cannot start is applied")
                self._change(timeline.MarkKind.BROKEN, resources.break_job())
            case story.Action.CHANGE_JOB:
                self.show.title("The job is changed to version 2; its standby gets ready before version 1 stops")
                self._change(timeline.MarkKind.CHANGED, resources.change_to_version_2())
            case story.Action.CHANGE_COLD:
                self.show.title("One more change, carried out cold: the driver stops, and another one starts")
                self._change(timeline.MarkKind.CHANGED_COLD, resources.change_cold())
            case story.Action.FINISH:
                self._mark(timeline.MarkKind.FINISHED, "every flight is out of both queries")
            case story.Action.WAIT:
                pass

    def _kill(self, kind: timeline.MarkKind, title: str, look: observer.Look) -> None:
        pod = look.seen.driver_pod or ""
        self.show.title(title)
        self.show.say("$ " + self._kube.shown("delete", "pod", pod, "--grace-period=0", "--force"))
        self._mark(kind, f"pod {pod} deleted with grace period 0")
        self._kube.delete_pod_now(pod)

    def _change(self, kind: timeline.MarkKind, change: kubectl.Json) -> None:
        text = json.dumps(change)
        self.show.say("$ " + self._kube.shown("patch", resources.RESOURCE, "--type", "merge", "--patch", text))
        self._mark(kind, text)
        self._kube.patch(resources.RESOURCE, change)

    def _mark(self, kind: timeline.MarkKind, text: str) -> None:
        self.marks.append(timeline.Mark(datetime.now(UTC), kind, text))
