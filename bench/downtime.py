"""How long a job on the bundled cluster has no output: upgraded, killed, and given a version that cannot start.

One job runs. In each turn every kind is done to it once: a warm upgrade, one that changes the plan (an operator with state
is added, and taken away again unmeasured), a kill beside a standby, a kill, a version that cannot start, a cold upgrade; and
plain PySpark is started in a pod until its first batch is done. Needs root and the images (`make images`), or KUBECONFIG and
what the scenarios need. At the end everything that was ever given out is compared with the truth. A run that was interrupted
goes on where it was: what was measured is in the file of `--runs`.

    PYTHONPATH=tests/support:e2e python -m bench.downtime --turns 3 --runs build/downtime.jsonl --picture downtime.png
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import downtime_picture, machine, older_image

sys.path.insert(0, str(machine.ROOT / "e2e"))

from testbed import bed, claims, job, pauses, records

BARE, YOUNG, BEFORE = "bare-spark", "young", "before"
HEAP_MB, HEAP_MB_PER_STATE_MB = 1024, 1
NAMES = {
    "warm": "warm upgrade",
    "replan": "warm upgrade, changed plan",
    "hot": "kill, a standby is ready",
    "kill": "kill",
    "bad": "version that cannot start",
    "cold": "cold upgrade",
    BARE: "bare Spark, first batch",
    YOUNG: "kill, a job that has just begun",
    BEFORE: "the same, the older image",
}


def main() -> None:
    """Take the turns that are missing, print the distribution, and write the figures."""
    parser = machine.parser("downtime", __doc__)
    parser.add_argument("--turns", type=int, default=20, help="how often each is done (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=tuple(NAMES), default=list(NAMES)[:-2], metavar="KIND")
    parser.add_argument(
        "--before", metavar="COMMIT", help="kill jobs that have just begun, of this image and of this commit's, too"
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("build", "downtime.jsonl"), help="what was measured; is added to"
    )
    parser.add_argument("--state-size", type=int, default=0, metavar="MB", help="of the job, besides its sums")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the distributions there, as PNG")
    options = parser.parse_args()
    print(f"Machine: {machine.described()}")
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    kinds = [kind for kind in options.kinds if kind not in (YOUNG, BEFORE)]
    kinds += [YOUNG, BEFORE] if options.before else []
    if records.missing(records.read(options.runs), kinds, options.turns, options.state_size):
        older = older_image.build(options.before) if options.before else None
        measure(options.runs, kinds, options.turns, options.state_size, older)
    figures = {kind: records.seconds(records.read(options.runs), kind, options.state_size) for kind in kinds}
    machine.table(
        ["seconds without output", "n", "p50", "p95", "least", "most"], [_row(k, figures[k]) for k in figures]
    )
    if options.picture is not None:
        downtime_picture.draw({NAMES[kind]: figures[kind] for kind in figures}, options.picture)
    machine.finish(options.json, {"state_mb": options.state_size, "seconds": figures})


def measure(runs: Path, kinds: Sequence[str], turns: int, state_mb: int, older: tuple[str, Path] | None) -> None:
    """Bring the cluster up, let every kind have its turns, and compare all output with the truth."""
    raised = bed.raise_up(os.environ)
    try:
        if older is not None and raised.chosen.foreign is None:
            older_image.load(bed.COMMAND, older[1])
        subject = job.Job(raised, f"downtime-{time.time_ns()}")
        subject.prepare()
        subject.apply(job={"parameters": {"ballast_mb": str(state_mb)}}, driver=_room(state_mb))
        _fill(subject, state_mb)
        while todo := records.missing(records.read(runs), kinds, turns, state_mb):
            _take(subject, todo[0], runs, state_mb, older[0] if older else "")
        claims.is_exact(subject)
        print("Every sum that was given out is exact.", flush=True)
    finally:
        bed.take_down(raised)


def _room(state_mb: int) -> dict[str, object]:
    """Return the driver's heap and its limit: workers hold the state, and the JVM passes it on."""
    heap_mb = HEAP_MB + HEAP_MB_PER_STATE_MB * state_mb
    return {"heap": f"{heap_mb}Mi", "resources": {"limits": {"memory": f"{3 * heap_mb}Mi"}}}


def _fill(subject: job.Job, state_mb: int) -> None:
    subject.wait_batch(3 + -(-state_mb // job.BALLAST_MB_PER_BATCH))
    subject.wait_checkpoint()


def _take(subject: job.Job, kind: str, runs: Path, state_mb: int, older: str) -> None:
    if kind == BARE:
        turn = pauses.bare_spark(subject)
    elif kind in (YOUNG, BEFORE):
        turn = pauses.kill_of(subject, older if kind == BEFORE else subject.bed.chosen.job_image)
    else:
        turn = pauses.KINDS[kind](subject)
    taken = {"kind": kind, "state_mb": state_mb, "pause_s": turn.pause_s, "longest_gap_s": turn.longest_gap_s}
    with runs.open("a") as file:
        file.write(json.dumps(taken | {"at": time.time(), "load": os.getloadavg()[0]}) + "\n")
    print(f"{NAMES[kind]:<28}{turn.pause_s:8.1f} s   load {os.getloadavg()[0]:.1f}", flush=True)


def _row(kind: str, found: Sequence[float]) -> list[object]:
    if not found:
        return [NAMES[kind], 0, "-", "-", "-", "-"]
    shown = (statistics.median(found), machine.percentile(found, 95), min(found), max(found))
    return [NAMES[kind], len(found), *(f"{value:.1f}" for value in shown)]


if __name__ == "__main__":
    main()
