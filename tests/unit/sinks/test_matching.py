"""The table of `docs/semantics.md`, row by row: state, storage and sink that match, and that do not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sinkcontexts import CLAIM, OWN, a_marker, a_sink_context, at
from statefulspark import errors
from statefulspark.contract import rights
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import marker, marker_errors
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.kafka import sink as kafka
from statefulspark.sinks.marker import Marker
from statefulspark.sinks.standing import Expected, SinkLineage, Standing, compare

PAGE = Path(__file__).parents[3] / "docs" / "semantics.md"
MOMENTS = {"older": 10, "equal": 20, "newer": 30}
"""The last batch at each moment of the history."""
EPOCH = 5
ASKED = "older, asked for"
KINDS = ("files", "kafka", "others")


def state_at(state: str, *, batch: int, kept_after: int, visible: str = "checkpoint") -> SinkContext:
    """Return the context of a start from a moment."""
    generation = 2 if state == ASKED else 1
    line = (at(1, batch),) if state == ASKED else ()
    return a_sink_context(
        generation=generation,
        batch_id=batch,
        epoch=EPOCH,
        expected=Expected(at(1, batch - 1), at(1, kept_after), was_opened=True),
        descent=SinkLineage(
            OWN,
            generation,
            root="s3://bucket/state",
            line=line,
            went_back=generation if state == ASKED and visible == "checkpoint" else 0,
        ),
    )


def sink_at(sink: str, *, batch: int) -> Marker | None:
    """Return the marker of a sink."""
    committed = at(1, batch)
    return {
        "opened by a newer driver": a_marker(committed, epoch=EPOCH + 1),
        "opened by another copy of this state": a_marker(committed, epoch=EPOCH, claim="another"),
        "of another history": a_marker(committed, lineage="theirs", origin="theirs"),
        "unknown: its marker is gone": None,
    }.get(sink, a_marker(committed, epoch=EPOCH - 1))


def outcome(kind: str, stored: Marker | None, context: SinkContext) -> str:
    """Return what a sink does at a start, in the words of the page."""
    try:
        if kind == "kafka" and stored is None:
            kept = kafka.recovered_marker(a_marker(context.expected.committed, epoch=EPOCH - 1), context, None)  # type: ignore[arg-type]
            assert marker.open_marker(kept, context, "the topic").newest == context.expected.committed
            return "goes on from its note"
        if kind == "kafka" and stored is not None and stored.lineage == OWN and stored.epoch < EPOCH:
            stored = kafka.settled_marker(
                kafka.KafkaSink("t", bootstrap_servers="k:9092"), stored, (context.expected.committed,), context
            )
        opened = marker.open_marker(stored, context, "the target", withdraws=kind == "files")
    except marker_errors.SinkBehindError as behind:
        return "sent again" if behind.is_healable else "`SinkBehind`"
    except errors.StatefulSparkError as error:
        return f"`{error.reason}`"
    assert stored is not None
    assert (opened.epoch, opened.claim) == (EPOCH, CLAIM.format(EPOCH))
    relation = compare(stored, context)
    if relation is Standing.EQUAL:
        return "goes on"
    return "withdraws" if kind == "files" else "comes once more"


def rows_of_the_page() -> Iterator[tuple[str, str, str, str]]:
    section = PAGE.read_text().partition("## State and sinks that do not match\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] not in ("state", "---"):
            for kind, cell in zip(KINDS, cells[2:], strict=True):
                yield cells[0], cells[1], kind, cell


ROWS = [pytest.param(*row, id=" / ".join(row[:3])) for row in rows_of_the_page()]


def test_the_page_has_every_row() -> None:
    states = [param.values[:2] for param in ROWS[:: len(KINDS)]]
    assert states[:9] == list(itertools.product(MOMENTS, MOMENTS))
    assert len(states) == 15


@pytest.mark.parametrize("visible", ["checkpoint", "batch"])
@pytest.mark.parametrize(("state", "sink", "kind", "cell"), ROWS)
def test_a_start_does_what_the_page_says(state: str, sink: str, kind: str, cell: str, visible: str) -> None:
    told, _, with_batch = cell.partition(", `SinkAhead` with ")
    expected = "`SinkAhead`" if with_batch and visible == "batch" else told
    near, _, far = expected.partition(", else ")
    for state_of in MOMENTS if state == "any" else [state.partition(",")[0]]:
        batch, other = MOMENTS[state_of], MOMENTS.get(sink, 20)
        context = state_at(state, batch=batch, kept_after=min(batch, other) - 5, visible=visible)
        assert outcome(kind, sink_at(sink, batch=other), context) == near
        if far:
            unkept = replace(context, expected=replace(context.expected, kept_after=at(1, batch - 2)))
            assert outcome(kind, sink_at(sink, batch=other), unkept) == far


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("state", "sink"), sorted({param.values[:2] for param in ROWS}))  # type: ignore[type-var]
def test_the_word_goes_on_in_every_row_but_behind_a_newer_driver(state: str, sink: str, kind: str) -> None:
    batch, other = MOMENTS.get(state.partition(",")[0], 20), MOMENTS.get(sink, 20)
    context = state_at(state, batch=batch, kept_after=batch - 2)
    context = replace(context, descent=replace(context.descent, rights=frozenset(SinkRight)))
    stored = sink_at(sink, batch=other)
    if sink == "opened by a newer driver":
        with pytest.raises(errors.FencedError):
            marker.open_marker(stored, context, "the target", withdraws=kind == "files")
        return

    opened = marker.open_marker(stored, context, "the target", withdraws=kind == "files")

    following = replace(context, batch_id=batch + 1)
    assert not opened.covers(following) or (kind == "files" and not state.startswith("newer"))
    again = replace(context, descent=replace(context.descent, rights=frozenset()), committing_epoch=EPOCH + 1)
    again = replace(again, claim_of={EPOCH: context.claim}.get, claim=CLAIM.format(EPOCH + 1))
    if kind != "files":
        assert compare(opened, again) in (Standing.EQUAL, Standing.SINK_BEHIND_HEALABLE)


@pytest.mark.parametrize("withdraws", [False, True])
@pytest.mark.parametrize(
    ("other", "after"),
    [
        pytest.param(30, {False: 19, True: 15}, id="the other copy has got further"),
        pytest.param(17, {False: 15, True: 15}, id="the other copy lacks what the state had committed"),
    ],
)
def test_a_refusal_names_the_batch_after_which_the_right_goes_on(
    other: int, after: dict[bool, int], withdraws: bool
) -> None:
    stored = sink_at("opened by another copy of this state", batch=other)
    context = state_at("equal", batch=20, kept_after=15)
    granted = replace(context, descent=replace(context.descent, rights=frozenset(SinkRight)))

    with pytest.raises(errors.SpecRejectedError) as refused:
        marker.open_marker(stored, context, "the target", withdraws=withdraws)
    opened = marker.open_marker(stored, granted, "the target", withdraws=withdraws)

    assert opened.newest == at(1, after[withdraws])
    assert f"writes what this state has after batch {after[withdraws]} (generation 1)" in str(refused.value)
    assert f"are in the target, which has batch {other} (generation 1) of the other driver: they" in str(refused.value)
    assert set(rights.offered(str(refused.value))) == {SinkRight.REPEAT}


# Before a commit


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        pytest.param(a_marker(at(1, 9), epoch=EPOCH), None, id="as the driver left it"),
        pytest.param(a_marker(at(1, 9), epoch=EPOCH - 1), None, id="the opening was lost, and no batch"),
        pytest.param(a_marker(at(1, 8), epoch=EPOCH), "SinkBehind", id="a batch was lost"),
        pytest.param(a_marker(at(1, 9), epoch=EPOCH + 1), "Fenced", id="opened by a newer driver"),
        pytest.param(a_marker(at(1, 9), epoch=EPOCH, claim="another"), "Fenced", id="opened by another copy"),
        pytest.param(
            a_marker(at(1, 9), epoch=EPOCH - 1, claim="another"),
            "Fenced",
            id="opened by another copy, the opening was lost",
        ),
        pytest.param(a_marker(at(1, 9), epoch=1, lineage="theirs"), "Fenced", id="taken over by another root"),
        pytest.param(None, "SinkMarkerMissing", id="the marker is gone"),
    ],
)
def test_before_a_commit(stored: Marker | None, reason: str | None) -> None:
    context = a_sink_context(
        generation=1, batch_id=10, epoch=EPOCH, expected=Expected(at(1, 9), at(1, 5), was_opened=True)
    )
    if reason is None:
        assert marker.require_newest(stored, context, "the target") == stored
        return
    with pytest.raises(errors.StatefulSparkError) as refused:
        marker.require_newest(stored, context, "the target")
    assert refused.value.reason == reason


def test_the_page_names_each_reason_that_a_comparison_has() -> None:
    said = set(re.findall(r"`(\w+)`", " ".join(str(param.values[3]) for param in ROWS)))
    assert said == {
        "Fenced",
        "KafkaMarkerLost",
        "SinkAhead",
        "SinkBehind",
        "SinkMarkerMissing",
        "SinkOpenedElsewhere",
        "SinkTaken",
    }
