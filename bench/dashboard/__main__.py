"""Draw the chart's dashboard from a real run: `make dashboard-picture`.

A bundled cluster runs the operator, three jobs, Kafka and a Prometheus that is configured by the chart's monitors and rules.
What Prometheus has recorded stays in `--folder`; with a recording there, the dashboard is drawn from it again, which takes
seconds. `--record` makes a new one; that needs root and the images, and takes half an hour.

    PYTHONPATH=tests/support:e2e python -m bench.dashboard --picture dashboard.png
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from bench import machine

sys.path.insert(0, str(machine.ROOT / "e2e"))

import processes
from demo import setup
from testbed import bed

from bench.dashboard import asking, drawing, panels, prometheus, recording, story
from bench.dashboard.answers import Answered

FOLDER = Path("build", "dashboard")
DASHBOARD = setup.CHART / "files" / "dashboard.json"


def main() -> None:
    """Record if there is nothing yet, and draw."""
    parser = machine.parser("dashboard", __doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the recording (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="make a new recording, in place of the one in the folder")
    parser.add_argument("--picture", type=Path, default=FOLDER / "dashboard.png", help="(default: %(default)s)")
    options = parser.parse_args()
    folder: Path = options.folder
    if options.record or not folder.joinpath(recording.FILE).exists():
        record(folder)
    empty = draw(folder, options.picture)
    for answered in empty:
        print(f"No line in {answered.panel.title!r}: {answered.why_empty}")
    print(f"{options.picture} is drawn; {len(empty)} panels have no line.")


def record(folder: Path) -> None:
    """Play the story on a cluster of our own; an earlier recording is gone then."""
    if os.environ.get("KUBECONFIG"):
        raise SystemExit(
            "KUBECONFIG is set, and Prometheus and Kafka come into the cluster from a folder of this machine, which only "
            "the bundled cluster has. Unset KUBECONFIG, or draw an earlier recording, without --record."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with processes.ending_in_order():
        raised = bed.raise_up(os.environ)
        try:
            story.play(raised, folder)
        finally:
            bed.take_down(raised)


def draw(folder: Path, picture: Path) -> list[Answered]:
    """Ask for every panel and draw it; return the panels that have no line."""
    recorded = recording.read(folder)
    dashboard = panels.read(json.loads(DASHBOARD.read_text("utf-8")))
    server = prometheus.OverRecording(folder / recording.DATA, folder / "prometheus.log")
    with processes.serving(server):
        page = asking.ask(server.api, dashboard, recorded)
    drawing.draw(page, picture)
    return [answered for answered in page.panels if answered.why_empty]


if __name__ == "__main__":
    main()
