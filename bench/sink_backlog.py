"""A sink whose commit takes longer than a batch: how late rows are visible, with each batch apart and with merged batches.

The driver's own committer decides, in front of a sink and storage in memory, and with a simulated clock
(`tests/support/sinkdrivers.py`). Needs nothing but Python:

    PYTHONPATH=tests/support python -m bench.sink_backlog --minutes 60
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkdrivers import Driver
from snapshots import Clock
from statefulspark.sinks.base import SinkContext
from statefulspark.testing import stores
from toldsinks import FakeSink

from bench import machine

CHECKPOINT_S = 10.0


@dataclass
class Commits:
    """The commits of one sink, one after the other in simulated time.

    Attributes:
        batch_s: A batch comes as often.
        commit_s: How long one commit takes.
        now_s: Simulated time.
        busy_until_s: End of the commit that is under way.
        first: The first batch that is not visible yet.
        count: How many there were.
        lags_s: How long each batch has waited until it was visible.
    """

    batch_s: float
    commit_s: float
    now_s: float = 0.0
    busy_until_s: float = 0.0
    first: int = 0
    count: int = 0
    lags_s: list[float] = field(default_factory=list)

    def commit(self, context: SinkContext) -> None:
        """Take one commit, after the one before it."""
        self.busy_until_s = max(self.busy_until_s, self.now_s) + self.commit_s
        self.count += 1
        batches = range(self.first, context.batch_id + 1)
        self.lags_s += [self.busy_until_s - batch * self.batch_s for batch in batches]
        self.first = context.batch_id + 1


@dataclass
class SlowSink(FakeSink):
    """Shows each batch, and commits it apart."""

    visible: str = "batch"
    commits: Commits = field(default_factory=lambda: Commits(0.0, 0.0))

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        """Commit; see `Commits`."""
        self.commits.commit(context)


class MergingSlowSink(SlowSink):
    """Commits those together that wait."""

    def merge(self, earlier: bytes, later: bytes) -> bytes:
        """Return one transaction for two: there is nothing in them."""
        return later


def run(sink: SlowSink, seconds: float) -> tuple[str, ...]:
    """Run a job for some simulated time, and return figures for the table."""
    commits, next_checkpoint_s = sink.commits, CHECKPOINT_S
    driver = Driver(stores.MemoryStore("memory://bucket", Clock()), Clock(), sink=sink)
    while commits.now_s < seconds:
        driver.batch()
        if commits.now_s >= next_checkpoint_s:
            driver.announcer.snapshot_completed(driver.complete().id)
            next_checkpoint_s += CHECKPOINT_S
        if commits.busy_until_s <= commits.now_s:
            driver.show()
        commits.now_s += commits.batch_s
    lags = sorted(commits.lags_s)
    return (str(commits.count), *(f"{lags[int((len(lags) - 1) * share)]:.1f}" for share in (0.5, 0.99, 1.0)))


def main() -> None:
    """Run a job with each sink, and print when its rows were visible."""
    parser = machine.parser("sink_backlog", __doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="simulated time (default: %(default)s)")
    parser.add_argument(
        "--batch", type=float, default=0.2, metavar="S", help="a batch comes as often (default: %(default)s)"
    )
    parser.add_argument("--commit", type=float, default=0.7, metavar="S", help="a commit takes (default: 0.7)")
    options = parser.parse_args()
    sinks: dict[str, type[SlowSink]] = {"apart": SlowSink, "merged": MergingSlowSink}
    rows = []
    for name, sink in sinks.items():
        rows.append((name, *run(sink(commits=Commits(options.batch, options.commit)), options.minutes * 60)))
        print("  " + " ".join(rows[-1]), flush=True)
    machine.table(["batches", "commits", "visible after: s, p50", "p99", "latest"], rows)
    machine.finish(options.json, {"minutes": options.minutes, "rows": rows})


if __name__ == "__main__":
    main()
