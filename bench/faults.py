"""Our rows of the fault matrix beside those of plain PySpark, as a table and as a picture; it runs nothing.

    PYTHONPATH=e2e:tests/support python -m bench.faults build/faults.plain/report.jsonl

Ours are read from the table in `bench/history/2026-11-faults.md`, those of plain PySpark from the report of
`make faults-plain`. The careful form differs from the usual one by its table of windows alone, so that table takes the
place of the usual one.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from faults import row

from bench import faults_picture
from bench.faults_picture import Figures

PAGE = Path(__file__).parent / "history" / "2026-11-faults.md"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "faults.png"
CAREFUL, USUAL = "windows, careful", "windows"
_OURS = re.compile(
    r"^\| `(?P<name>[\w-]+)` \| \d+ \| (?P<lost>[\d,]+) \| (?P<repeated>[\d,]+) \| (?P<wrong>[\d,]+) \| [\d,]+ "
    r"\| (?P<commit>[\d.]+) s \|"
)


def ours(page: str) -> dict[str, Figures]:
    """Return our rows of the page by the name of their scenario."""
    matches = filter(None, map(_OURS.match, page.splitlines()))
    return {
        match["name"]: Figures(
            _count(match["lost"]), _count(match["repeated"]), _count(match["wrong"]), float(match["commit"])
        )
        for match in matches
    }


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def usual(found: row.Row) -> Figures:
    """Return the figures of the plain job as its users write it."""
    return Figures(found.lost, found.repeated, found.wrong, None if found.stuck else found.first_commit_s)


def careful(found: row.Row) -> Figures:
    """Return the figures of the plain job with the careful form of foreachBatch."""
    counts = {name: tuple(numbers) for name, *numbers in found.outputs}
    nothing = (0, 0, 0)
    changes = zip(counts.get(CAREFUL, nothing), counts.get(USUAL, nothing), strict=True)
    more = [one - other for one, other in changes]
    return Figures(
        found.lost + more[0],
        found.repeated + more[1],
        found.wrong + more[2],
        None if found.stuck else found.first_commit_s,
    )


def table(known: Mapping[str, Figures], plain: Sequence[row.Row]) -> Iterator[str]:
    """Yield the lines of the table: for each scenario ours, and plain PySpark in both forms."""
    heads = ("scenario", "ours", "first commit", "plain", "plain, careful", "first commit", "every query")
    yield f"| {' | '.join((*heads, 'what stops it', 'a person'))} |"
    yield "| --- " * 9 + "|"
    for one in plain:
        mine = known.get(one.scenario)
        cells = [
            f"`{one.scenario}`",
            mine.counts if mine else "not run",
            _seconds(mine.first_commit_s if mine else None),
            usual(one).counts,
            careful(one).counts,
            _seconds(usual(one).first_commit_s),
            _seconds(None if one.stuck else one.all_commit_s),
            f"`{one.stuck}`" if one.stuck else "nothing",
            one.person or "nothing",
        ]
        yield f"| {' | '.join(cells)} |"


def _seconds(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:.1f} s"


def main() -> None:
    """Print the table, and draw the picture."""
    parser = argparse.ArgumentParser(description="Our rows of the fault matrix beside those of plain PySpark.")
    parser.add_argument("report", type=Path, help="of make faults-plain")
    parser.add_argument(
        "--times", action="store_true", help="draw times, too: where both ran beside the same other work"
    )
    chosen = parser.parse_args()
    known, plain = ours(PAGE.read_text()), row.newest(row.Report(chosen.report).rows())
    print("\n".join(table(known, plain)))
    both = [one for one in plain if one.scenario in known]
    contenders = {
        "ours": {one.scenario: known[one.scenario] for one in both},
        "plain PySpark": {one.scenario: usual(one) for one in both},
        "plain PySpark, careful": {one.scenario: careful(one) for one in both},
    }
    faults_picture.draw(
        contenders, PICTURE, faults_picture.Panels.TIMES if chosen.times else faults_picture.Panels.COUNTS
    )
    print(f"The picture is {PICTURE}.")


if __name__ == "__main__":
    main()
