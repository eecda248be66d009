"""Build everything that a release consists of into dist/, or say why this tree is none."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from release import artifacts, licences, notes, schemas, signing, surface, versions

ROOT = artifacts.ROOT
_EXAMPLES = """examples:
  The version of pyproject.toml, from a clean tree, with its section of CHANGELOG.md:
    make release

  This tree as it is, with the notes of what is unreleased:
    make release RELEASE_ARGS=--snapshot
"""
_STATED = Path(__file__).with_name("licences.toml")


def main() -> int:
    """Check the tree, build, and list what was built.

    Returns:
        0, or 1 with what has to be done first.
    """
    parser = argparse.ArgumentParser(
        "release", description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder, emptied first (default: dist)")
    parser.add_argument("--snapshot", action="store_true", help="a tree with changes, or without a section of its own")
    options = parser.parse_args()
    try:
        version, changes = _checked(snapshot=options.snapshot)
        built = build(options.out, version, changes)
    except ValueError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    for path in built:
        print(f"{path.stat().st_size / 1e6:9.2f} MB  {path}")
    folder = options.out.relative_to(ROOT) if options.out.is_relative_to(ROOT) else options.out
    images = json.loads((options.out / "images.json").read_text())["images"]
    print(
        f"\nNobody has signed it. To sign it, in the root of the repository:\n\n{signing.commands(folder, version, images)}"
    )
    return 0


def build(out: Path, version: str, changes: str) -> list[Path]:
    """Build all files into the folder `out`, which is emptied first.

    Raises:
        ValueError: A part that is shipped states no licence.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shipped = [*artifacts.wheels(out), *artifacts.images(out, version)]
    artifacts.chart(out)
    artifacts.resource_definitions(out)
    schemas.write(out)
    artifacts.digests(out, version)
    bills = artifacts.bills_of_materials(shipped)
    (out / "THIRD-PARTY.md").write_text(_third_parties(bills))
    names = sorted(path.name for path in out.iterdir())
    (out / "RELEASE-NOTES.md").write_text(notes.written(version, changes, names))
    artifacts.checksums(out)
    return sorted(out.iterdir())


def _checked(*, snapshot: bool) -> tuple[str, str]:
    version = versions.agreed(versions.stated(ROOT))
    changed = _git("status", "--porcelain")
    if changed and not snapshot:
        raise ValueError(f"the tree has changes; commit them, or build it as it is with --snapshot:\n{changed}")
    folder = surface.RELEASED / version
    if not snapshot and any(not (folder / name).is_file() for name in surface.files()):
        raise ValueError(f"what {version} promises is not recorded; run `make surface`, and commit {folder}.")
    title = notes.UNRELEASED if snapshot else version
    return version, notes.section((ROOT / "CHANGELOG.md").read_text(), title)


def _third_parties(bills: list[Path]) -> str:
    looked_up = _looked_up()
    components = set().union(*(licences.read(bill) for bill in bills))
    if unknown := licences.unstated(components, looked_up):
        raise ValueError(
            f"the licence of {', '.join(unknown)} is unknown: look it up, and write it with its source into {_STATED.name}."
        )
    head = "# Work of others in this release\n\nWheels and images; which has which is in its `.cdx.json`.\n\n"
    return head + licences.table(components, looked_up)


def _looked_up() -> licences.LookedUp:
    stated = tomllib.loads(_STATED.read_text())
    bundled = importlib.metadata.distribution("pyspark").read_text("licenses/LICENSE")
    if bundled is None:
        raise ValueError("PySpark is installed without its LICENSE, which says what it bundles; run `make venv`.")
    return licences.LookedUp(licences.bundled_by_spark(bundled) | stated["licences"], stated["groups"])


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
