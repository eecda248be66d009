"""The version of this repository: it stands in five files, which have to agree."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

RUNTIME, OPERATOR, CHART = (
    "jobruntime/pyproject.toml",
    "operator/pyproject.toml",
    "charts/statefulspark-operator/Chart.yaml",
)
_CHART_LINE = re.compile(r'^(version|appVersion): "?([^"\s]+)"?$', re.MULTILINE)
_RUNTIME_OF_OPERATOR = re.compile(r"^statefulspark==(\S+)$")


def stated(root: Path) -> dict[str, str]:
    """Return the version by the place that states it.

    Args:
        root: Folder of the repository.
    """
    runtime = tomllib.loads((root / RUNTIME).read_text())["project"]
    operator = tomllib.loads((root / OPERATOR).read_text())["project"]
    chart = dict(_CHART_LINE.findall((root / CHART).read_text()))
    return {
        f"{RUNTIME} version": runtime["version"],
        f"{OPERATOR} version": operator["version"],
        f"{OPERATOR} dependency statefulspark": _pinned_runtime(operator["dependencies"]),
        f"{CHART} version": chart.get("version", "missing"),
        f"{CHART} appVersion": chart.get("appVersion", "missing"),
    }


def agreed(by_place: Mapping[str, str]) -> str:
    """Return the one version that all places state.

    Raises:
        ValueError: They differ. Named are all places with what each states.
    """
    if len(set(by_place.values())) > 1:
        listed = "\n".join(f"  {version:<10} {place}" for place, version in by_place.items())
        raise ValueError(f"The version differs from place to place; make it the same in all:\n{listed}")
    return next(iter(by_place.values()))


def _pinned_runtime(dependencies: list[str]) -> str:
    matches = [match for line in dependencies if (match := _RUNTIME_OF_OPERATOR.match(line))]
    return matches[0].group(1) if matches else "not pinned"
