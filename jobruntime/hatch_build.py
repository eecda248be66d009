"""Lets no wheel and no source archive be built without the jars that a driver needs.

The jars come from `make jars`. An editable install goes without them, since they are built into the same folder later; so
does a build with STATEFULSPARK_WITHOUT_JARS=1, which is for places that never start Spark, like the operator's image.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

REQUIRED = (
    "statefulspark-checkpoint",
    "s3",
    "s3-transfer-manager",
    "sts",
    "apache-client",
    "netty-nio-client",
    "analyticsaccelerator-s3",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
"""Jars that a driver needs, by name without version: ours, and what jvm/pom.xml names. What those need comes with them."""
OF_A_RELEASE = ("hadoop-aws", "spark-sql-kafka-0-10_2.13")
"""Jars that each release of Spark needs in a version of its own, in the folder `spark-4.2` for 4.2."""
RELEASES = ("4.1", "4.2", "4.3")
SWITCH = "STATEFULSPARK_WITHOUT_JARS"
_JARS = Path("src", "statefulspark", "jars")


class JarsHook(BuildHookInterface):
    """Stops the build when a required jar is absent."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Look for the jars before anything is packed.

        Args:
            version: `standard`, or `editable` for an install that points at the sources.
            build_data: What hatchling would let a hook change; it stays as it is.
        """
        if version == "editable" or os.environ.get(SWITCH) == "1":
            return
        if missing := missing_jars(Path(self.root)):
            self.app.abort(
                f"{Path(self.root) / _JARS} lacks {', '.join(missing)}: run `make jars` first. A package that never starts "
                f"Spark is built with {SWITCH}=1."
            )


def missing_jars(root: Path) -> list[str]:
    """Return the required jars that the source folder under `root` has not, in the order of REQUIRED."""
    missing = _missing(REQUIRED, root / _JARS)
    for release in RELEASES:
        folder = f"spark-{release}"
        missing += [f"{folder}/{name}" for name in _missing(OF_A_RELEASE, root / _JARS / folder)]
    return missing


def _missing(names: tuple[str, ...], folder: Path) -> list[str]:
    present = [path.name for path in folder.glob("*.jar")]
    return [name for name in names if not any(_is(name, jar) for jar in present)]


def _is(name: str, jar: str) -> bool:
    """Tell `s3-2.35.4.jar` from `s3-transfer-manager-2.35.4.jar`: a version begins with a digit, and ours has none."""
    return jar == f"{name}.jar" or (jar.startswith(f"{name}-") and jar[len(name) + 1].isdigit())
