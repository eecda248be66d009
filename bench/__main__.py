"""Run every benchmark, one process each: `python -m bench [--json FOLDER]`.

Each prints a table of ratios measured side by side in one run; with `--json` its figures go to FOLDER/<name>.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "tests" / "support"
SHARED = {
    "contenders",
    "downtime_picture",
    "driver_fleet",
    "executors_picture",
    "faults_picture",
    "hostile_s3",
    "latency_picture",
    "state_size_picture",
    "machine",
    "older_image",
    "picture",
    "processor_time",
    "sizing_runs",
    "start_picture",
    "turns",
    "workload",
}
OF_A_REPORT = {"faults", "recoveries"}
"""They show what another run has written, and are told where that is."""
ON_A_CLUSTER = {"abusive_tenant", "downtime", "operator_scale"}
"""They need root or a cluster, and the images: each is run by its name."""
ON_OTHER_RELEASES = {"spark_releases"}
"""They need the environments of `make compat`."""


def main() -> int:
    """Run them in order; the exit code is the first that is not 0."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write the figures here, one file per benchmark")
    folder = parser.parse_args().json
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
    for name in sorted(
        {path.stem for path in HERE.glob("[a-z]*.py")} - SHARED - OF_A_REPORT - ON_A_CLUSTER - ON_OTHER_RELEASES
    ):
        figures = [] if folder is None else ["--json", str(folder / f"{name}.json")]
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", *figures]
        ended = subprocess.run(command, check=False, env=env)
        if ended.returncode != 0:
            return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
