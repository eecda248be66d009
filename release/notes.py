"""The notes of a release: its section of the changelog, and how to get from the release before to this one."""

from __future__ import annotations

import re

UNRELEASED = "Unreleased"
_HEADING = re.compile(r"^## (?P<title>\S+)(?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def section(changelog: str, title: str) -> str:
    """Return the text below the heading `## title` or `## title - date`.

    Args:
        changelog: The whole changelog; its format is Keep a Changelog's.
        title: A version, or UNRELEASED.

    Raises:
        ValueError: There is no such section, or nothing stands in it.
    """
    headings = list(_HEADING.finditer(changelog))
    for index, heading in enumerate(headings):
        if heading["title"] != title:
            continue
        end = headings[index + 1].start() if index + 1 < len(headings) else len(changelog)
        if text := changelog[heading.end() : end].strip():
            return text
        raise ValueError(f"The section {title} of CHANGELOG.md is empty; say in it what users notice.")
    titles = ", ".join(heading["title"] for heading in headings) or "none"
    raise ValueError(
        f"CHANGELOG.md has no section {title} (it has: {titles}). Rename '## {UNRELEASED}' to '## {title} - <date>' in the "
        "commit of the release, or build this tree as it is with --snapshot."
    )


def written(version: str, changes: str, artifacts: list[str]) -> str:
    """Return the notes as Markdown.

    Args:
        version: Of the release.
        changes: Its section of the changelog.
        artifacts: Names of the files beside the notes.
    """
    files = "\n".join(f"- `{name}`" for name in artifacts)
    return (
        f"# Stateful Spark {version}\n\n"
        "**Upgrade** in this order: the CRDs (`kubectl apply --server-side --force-conflicts -f crds.yaml`; Helm never "
        "changes them), the operator, then the images of the jobs one by one. Each job leaves a savepoint and goes on "
        "from it.\n\n"
        f"{changes}\n\n## Files\n{files}\n\n`sha256sum --check SHA256SUMS` tells whether they are whole. Who made "
        "them, `SHA256SUMS.sigstore.json` says; how to verify it is in docs/releases.md.\n"
    )
