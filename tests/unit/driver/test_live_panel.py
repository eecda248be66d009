"""The live display of a job as text, by what the job does and by the size of the terminal."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fakecontrol import NOON, a_status, a_summary, some_state
from statefulspark.contract import api, observations, sizes
from statefulspark.driver.terminal import live_panel

_NOW = NOON + timedelta(minutes=2, seconds=14)
_KAFKA = api.SourceStatus(name="Kafka clicks", input_rows=100, lag_rows=1790)
_FILES = api.SourceStatus(name="files in s3://bucket/in", input_rows=3)
_QUERY = api.QueryStatus(
    uid="counts", active=True, batch_id=60, input_rows=122_000, rows_per_second=812.4, batch_duration_ms=1400,
    sources=(_KAFKA,),
)  # fmt: skip
_CHECKPOINT = a_summary().model_copy(
    update={"completed_at": _NOW - timedelta(seconds=3), "triggered_at": _NOW - timedelta(seconds=4)}
)
_ERROR = api.JobError(query="counts", reason="QueryFailed", message="It\x1b[2J failed.\nTwice.", failed_at=NOON)


def _shown(
    *queries: api.QueryStatus,
    most: int = 20,
    width: int = 100,
    state: observations.StateSizes | None = None,
    **changes: object,
) -> list[str]:
    status = a_status(queries=queries, **changes)  # type: ignore[arg-type]
    view = live_panel.LiveView(status, state or observations.StateSizes(), _NOW)
    return [live_panel.written(line, width, coloured=False).rstrip() for line in live_panel.lines(view, most)]


def test_a_running_job_is_shown_whole() -> None:
    assert _shown(
        _QUERY,
        state=some_state(40_000_000, 2_000_000),
        last_checkpoint=_CHECKPOINT,
        sinks=(api.SinkStatus(query="counts", uid="orders", pending_transactions=3),),
        checkpoints=api.CheckpointCounts(completed=41, in_progress=1),
    ) == [
        "── words Running for 2m14s, epoch 7; Ctrl-C ends it at a batch boundary ────────────────────────────",
        "query   batch  took  rate        rows read  behind",
        "counts  60     1.4s  812 rows/s  122,000    1,790 rows",
        "state       40.1 MiB in 1 operator, checkpoint 41",
        "checkpoints 41 completed, 0 failed, 1 in progress; the newest is 41, 3.0s ago, took 1.0s, 2.86 MiB",
        "sinks       3 prepared transactions for the next checkpoint",
    ]


def test_a_job_that_has_just_started_claims_nothing() -> None:
    assert _shown(api.QueryStatus(uid="counts", active=True, batch_id=-1), checkpoints=api.CheckpointCounts())[1:] == [
        "query   batch     took  rate      rows read  behind",
        "counts  none yet        0 rows/s  0",
        "state       none in a checkpoint yet",
        "checkpoints 0 completed, 0 failed; none is on storage yet",
    ]


@pytest.mark.parametrize(
    ("changes", "cell"),
    [
        pytest.param({"batch_since": _NOW - timedelta(seconds=3)}, "61 for 3.0s", id="a batch is running"),
        pytest.param({"active": False, "error": "Traceback"}, "failed", id="it has failed"),
        pytest.param({"active": False}, "ended", id="it has ended"),
        pytest.param({"sources": (_FILES,)}, "unknown", id="no source tells: never 0"),
        pytest.param({"sources": (_FILES, _KAFKA)}, "1,790 rows or more", id="one source does not tell"),
        pytest.param({"sources": (_KAFKA.model_copy(update={"lag_rows": 0}),)}, "0 rows", id="everything is read"),
    ],
)
def test_a_query_tells(changes: dict[str, object], cell: str) -> None:
    assert cell in _shown(_QUERY.model_copy(update=changes))[2]


def test_an_error_and_a_message_are_the_last_lines_and_cannot_change_the_terminal() -> None:
    assert _shown(_QUERY, last_error=_ERROR, message="A sink is tried again.")[-2:] == [
        "now         A sink is tried again.",
        "error       2m14s ago: It [2J failed. Twice.",
    ]


@pytest.mark.parametrize(
    ("most", "queries"),
    [
        pytest.param(9, ["q0", "q1", "q2", "q3", "q4"], id="room for all"),
        pytest.param(7, ["q0", "q1", "and 3 more queries"], id="the rest is counted"),
        pytest.param(6, ["q0", "and 4 more queries"], id="one query at least"),
    ],
)
def test_queries_without_room_are_counted(most: int, queries: list[str]) -> None:
    shown = _shown(*(_QUERY.model_copy(update={"uid": f"q{number}"}) for number in range(5)), most=most)

    assert len(shown) <= most
    assert [line if line.startswith("and") else line.split()[0] for line in shown[2:-2]] == queries


@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    shown = _shown(_QUERY.model_copy(update={"uid": "訪問者" * 20}), width=width, last_error=_ERROR)

    assert max(live_panel._columns(line) for line in shown) <= width
    assert live_panel._columns(shown[0]) == width


def test_what_does_not_fit_is_cut_with_a_mark() -> None:
    assert _shown(_QUERY, width=20)[2:4] == ["counts  60     1.4s…", "state       none in…"]


def test_colours_are_around_the_text_and_are_left_out_on_request() -> None:
    line = (live_panel.Span("words", live_panel.Tone.STRONG), live_panel.Span(" ok"))

    assert live_panel.written(line, 80, coloured=True) == "\x1b[1mwords\x1b[0m ok"
    assert live_panel.written(line, 80, coloured=False) == "words ok"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (980, "980 B"),
        (1500, "1.46 KiB"),
        (41_900_000, "40.0 MiB"),
        (2**50, "1.00 PiB"),
    ],
)
def test_sizes_are_written_as_the_command_writes_them(size_bytes: int, text: str) -> None:
    assert sizes.format_short(size_bytes) == text


def test_what_stays_when_the_display_is_gone() -> None:
    idle = api.QueryStatus(uid="idle", active=True, batch_id=-1)

    assert live_panel.summary(a_status(queries=(_QUERY, idle))) == (
        "counts: 122,000 rows since the start, the last batch is 60",
    )
