"""The page of a driver in headless Chromium: every state of a job, and what a person does with the page.

Behind it is a job that says what the test says. Pictures of every state are kept in `build/page/`.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import headlessbrowser
import pytest
from coordination import a_checkpoint
from fakecontrol import NOON, TOKEN, FakeControl, a_status, a_summary, served, some_batches, some_state
from headlessbrowser import Chromium, Tab
from statefulspark import clock
from statefulspark.contract import api, observations
from statefulspark.contract.faults import Fault
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import stats
from statefulspark.server.http import ApiServer
from watched import Watched

_PICTURES = Path(__file__).parents[2] / "build" / "page"
_PHONE_PIXELS = 360
_MOST_SHIFT = 0.05
"""Sum of layout shifts that a person does not notice; 0.1 counts as good (web.dev/cls)."""
_SHIFT = """new Promise(resolve => {
  let sum = 0;
  new PerformanceObserver(list => list.getEntries().forEach(entry => { sum += entry.value; }))
    .observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => setTimeout(() => resolve(sum), 100));
})"""
"""The sum of every shift since the page was opened; observers are told of earlier ones a moment later."""

_TOP = "document.getElementById('{}').getBoundingClientRect().top"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with headlessbrowser.running(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    with chromium.tab() as opened:
        yield opened
        assert opened.faults == []


@pytest.fixture
def job() -> FakeControl:
    return _a_running_job()


@pytest.fixture
def url(job: FakeControl) -> Iterator[str]:
    with served(job, tokens=None) as address:
        yield address


def _a_running_job() -> FakeControl:
    now = clock.utc_now()
    query = api.QueryStatus(
        uid="counts", active=True, batch_id=60, last_commit_at=now, input_rows=6000, rows_per_second=98.5,
        batch_duration_ms=1600, batch_since=now, restarts=1,
    )  # fmt: skip
    checkpoint = a_summary(number=41).model_copy(update={"batches": {"counts": 57}, "completed_at": now})
    control = FakeControl()
    control.current = a_status(
        started_at=now - timedelta(hours=2),
        queries=(query,),
        sinks=(api.SinkStatus(query="counts", uid="orders", committed_batch=57, pending_transactions=3),),
        last_checkpoint=checkpoint,
    )
    control.newest = some_batches(newest=60, count=60)
    control.sizes = some_state(40_000_000, 2_000_000, 3_000_000, 1_000_000)
    watched = Watched()
    watched.snapshot(a_checkpoint())
    control.stats = watched.stats
    return control


def _an_error(**changes: object) -> api.JobError:
    error = api.JobError(
        query="counts",
        reason="QueryFailed",
        message="The query 'counts' failed at /job/counts.py:12 in process: ZeroDivisionError: division by zero",
        failed_at=clock.utc_now(),
        frames=(api.CodeFrame(file="/job/counts.py", line=12, function="process", source="mean = total / rows"),),
        fault=Fault.REVISION,
    )
    return error.model_copy(update=changes)


# The states of a job


def test_a_running_job_shows_everything(tab: Tab, url: str) -> None:
    tab.open(f"{url}/ui")
    tab.until_text("#losses", "Nothing")
    tab.until_text("#sizes", "count-by-word")
    tab.picture(_PICTURES / "running.png")

    assert (tab.text("h1"), tab.text("#state")) == ("default/words", "Running")
    assert tab.text("#connection") == "Every query runs."
    for part in ("counts", "batch 60", "98.5 rows/s", "1.6 s", "6,000", "Restarts 1"):
        assert part in tab.text("#queries")
    assert "3 batches committed, 300 rows; batch 61 is running" in tab.text("#losses")
    assert "3 transactions" in tab.text("#losses")
    assert tab.text("#sinks") == "Sink Query Visible through Prepared, waiting orders counts batch 57 3"
    assert "uneven keys" in tab.text("#sizes")
    assert "1 completed, 0 failed" in tab.text("#snapshots")
    assert "No query and no checkpoint has failed" in tab.text("#error")
    assert "Epoch 7" in tab.text("#driver")
    assert tab.value("document.querySelectorAll('.spark polyline').length") == 2
    assert tab.value("document.querySelector('.spark polyline').getAttribute('points').split(' ').length") == 60
    assert tab.value("document.querySelectorAll('.bars rect').length") == 4
    assert tab.value("document.querySelectorAll('.timeline rect').length") == 2  # its duration and its size
    assert not tab.value("document.getElementById('standby').checkVisibility()")


def test_a_starting_job_says_at_which_step_it_is(tab: Tab, url: str, job: FakeControl) -> None:
    job.current = a_status(
        state=api.JobState.STARTING, epoch=8, queries=(), restored_from=None, generation=None,
        message="Starting the queries from checkpoint 41, since 12:00:00 UTC.",
    )  # fmt: skip
    job.newest, job.sizes, job.stats = observations.Batches(), observations.StateSizes(), stats.begin()

    tab.open(f"{url}/ui/")
    tab.until_text("#losses", "Not known yet")
    tab.picture(_PICTURES / "starting.png")

    assert (tab.text("#state"), tab.text("#queries")) == ("Starting", "The queries have not started yet.")
    assert "From not known yet" in tab.text("#driver")
    assert tab.text("#connection") == "Starting the queries from checkpoint 41, since 12:00:00 UTC."


@pytest.mark.parametrize(
    ("standby", "shown"),
    [
        pytest.param(
            api.StandbyStatus(state=api.StandbyState.READY, compared_with="checkpoint 41", ready_at=NOON),
            "Ready Compared with checkpoint 41",
            id="ready",
        ),
        pytest.param(
            api.StandbyStatus(state=api.StandbyState.REFUSED, reason="UidInvalid", message="The uid is empty."),
            "UidInvalid: The uid is empty.",
            id="refused",
        ),
    ],
)
def test_a_standby_says_how_far_it_is(
    tab: Tab, url: str, job: FakeControl, standby: api.StandbyStatus, shown: str
) -> None:
    job.current = a_status(state=api.JobState.STANDBY, epoch=0, queries=(), standby=standby)

    tab.open(f"{url}/ui/")
    tab.until_text("#losses", "a standby has no state of its own")
    tab.picture(_PICTURES / f"standby-{standby.state.value.lower()}.png")

    assert tab.text("#state") == "Standby"
    assert shown in tab.text("#standby")


def test_a_stopping_job_goes_over_without_a_new_load(tab: Tab, url: str, job: FakeControl) -> None:
    tab.open(f"{url}/ui/")
    tab.until_text("#state", "Running")

    job.current = job.current.model_copy(update={"state": api.JobState.STOPPING})
    tab.until_text("#state", "Stopping")
    tab.picture(_PICTURES / "stopping.png")

    assert tab.text("#connection") == "The last batch ends, then the snapshot is taken."


def test_a_failed_query_shows_its_sentence_and_its_line(tab: Tab, url: str, job: FakeControl) -> None:
    tab.open(f"{url}/ui/")
    tab.until_text("#state", "Running")
    failed = job.current.queries[0].model_copy(update={"active": False, "error": "Traceback"})

    job.current = job.current.model_copy(
        update={"state": api.JobState.FAILED, "queries": (failed,), "last_error": _an_error(), "message": "It failed."}
    )
    tab.until_text("#error", "ZeroDivisionError")
    tab.picture(_PICTURES / "failed.png")

    assert "Fault of the revision" in tab.text("#error")
    assert tab.text("#error ol") == "/job/counts.py:12 in process mean = total / rows"
    assert tab.value(f"{_TOP.format('error')} < {_TOP.format('queries')}"), "the error is not the first thing to see"
    assert "Failed" in tab.text("#queries")


def test_a_failure_that_passes_says_that_the_query_runs_again(tab: Tab, url: str, job: FakeControl) -> None:
    job.current = job.current.model_copy(update={"last_error": _an_error(is_repeated=True)})

    tab.open(f"{url}/ui/")

    tab.until_text("#error", "The driver has started the query again.")


def test_a_driver_that_ends_is_heard_before_it_is_gone(tab: Tab) -> None:
    job = _a_running_job()
    with served(job, tokens=None) as url:
        tab.open(f"{url}/ui/")
        tab.until_text("#queries", "98.5 rows/s")
        tab.until("performance.getEntriesByType('resource').some(one => one.name.includes('waitSeconds'))")
        job.current = job.current.model_copy(
            update={"state": api.JobState.FAILED, "message": "Query failed.", "last_error": _an_error()}
        )

    tab.until_text("#connection", "The driver has ended: Query failed.")
    assert "ZeroDivisionError" in tab.text("#error")


def test_a_driver_that_cannot_be_reached_is_told_and_asked_again(tab: Tab, job: FakeControl) -> None:
    first = ApiServer(job, tokens=None, host="127.0.0.1", port=0)
    tab.open(f"http://127.0.0.1:{first.port}/ui/")
    tab.until_text("#queries", "98.5 rows/s")

    first.close()
    tab.until_text("#connection", "The driver does not answer since")
    tab.picture(_PICTURES / "unreachable.png")
    assert tab.text("#state") == "No answer"
    assert "98.5 rows/s" in tab.text("#queries")
    assert tab.value("document.title") == "No answer · default/words"

    job.current = job.current.model_copy(update={"epoch": 8})
    second = ApiServer(job, tokens=None, host="127.0.0.1", port=first.port)
    try:
        tab.until_text("#driver", "Epoch 8")
        assert tab.text("#connection") == "Every query runs."
    finally:
        second.close()


def test_a_job_without_anything_says_so_in_every_part(tab: Tab, url: str, job: FakeControl) -> None:
    job.current = a_status(queries=(), sinks=(), epoch=1, restored_from=None)
    job.newest, job.sizes, job.stats = observations.Batches(), observations.StateSizes(), stats.begin()

    tab.open(f"{url}/ui/")
    tab.until_text("#sizes", "No stateful operator")
    tab.picture(_PICTURES / "empty.png")

    assert tab.text("#queries") == "This job has no query."
    assert "No sink with two-phase commit" in tab.text("#sinks")
    assert "No checkpoint or savepoint yet." in tab.text("#snapshots")
    assert "From empty state" in tab.text("#driver")


@pytest.mark.parametrize(
    ("sources", "at_a_glance", "in_the_query"),
    [
        pytest.param(
            (api.SourceStatus(name="Kafka clicks", lag_rows=790), api.SourceStatus(name="files in s3://b/in")),
            "Behind 790 rows 1 source cannot tell",
            "Kafka clicks 790 rows behind files in s3://b/in lag unknown",
            id="one source tells",
        ),
        pytest.param(
            (api.SourceStatus(name="Kafka clicks", lag_rows=0),),
            "Behind 0 rows",
            "Kafka clicks everything read",
            id="nothing is left",
        ),
        pytest.param(
            (api.SourceStatus(name="files in s3://b/in"),),
            "Behind unknown no source tells where it ends",
            "files in s3://b/in lag unknown",
            id="none tells",
        ),
    ],
)
def test_a_lag_is_told_where_it_is_known_and_called_unknown_elsewhere(
    tab: Tab, url: str, job: FakeControl, sources: tuple[api.SourceStatus, ...], at_a_glance: str, in_the_query: str
) -> None:
    job.current = job.current.model_copy(
        update={"queries": (job.current.queries[0].model_copy(update={"sources": sources}),)}
    )

    tab.open(f"{url}/ui/")
    tab.until_text("#summary", "Behind")

    assert at_a_glance in tab.text("#summary")
    assert in_the_query in tab.text("#queries")


def test_a_savepoint_stands_in_the_table_beside_the_checkpoints(tab: Tab, url: str, job: FakeControl) -> None:
    watched = Watched()
    watched.snapshot(a_checkpoint())
    job.stats = watched.stats
    detail = job.checkpoints().history[0]
    told = job.checkpoints()
    savepoint = detail.model_copy(update={"id": detail.id + 1, "kind": SnapshotKind.SAVEPOINT})
    job.checkpoints = lambda: told.model_copy(update={"history": (savepoint, detail)})  # type: ignore[method-assign]

    tab.open(f"{url}/ui/")
    tab.until_text("#snapshots", "savepoint")

    assert tab.value("document.querySelectorAll('.timeline .savepoint').length") == 2  # its duration and its size


# Who may look


@pytest.fixture
def guarded(job: FakeControl) -> Iterator[str]:
    with served(job) as address:
        yield address


def test_the_token_is_asked_for_and_a_wrong_one_is_refused(tab: Tab, guarded: str) -> None:
    tab.open(f"{guarded}/ui/")
    tab.until_text("#connection", "The driver asks for its token.")
    tab.picture(_PICTURES / "token.png")
    assert not tab.value("document.querySelector('main').checkVisibility()")
    tab.until("document.activeElement.id === 'token'")

    tab.type("wrong")
    tab.press("Enter")
    tab.until_text("#connection", "The driver refused the token")
    tab.value("document.getElementById('token').focus()")
    tab.type(TOKEN)
    tab.press("Enter")
    tab.until_text("#state", "Running")

    assert tab.value("document.getElementById('access').hidden")


def test_the_token_is_kept_nowhere(tab: Tab, guarded: str) -> None:
    tab.open(f"{guarded}/ui/")
    tab.until("document.activeElement.id === 'token'")
    tab.type(TOKEN)
    tab.press("Enter")
    tab.until_text("#state", "Running")

    kept = tab.value("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert TOKEN not in kept
    assert TOKEN not in tab.value("document.documentElement.outerHTML")
    assert TOKEN not in "".join(tab.asked)
    tab.open(f"{guarded}/ui/")
    tab.until_text("#connection", "The driver asks for its token.")


def test_only_the_origin_of_the_page_is_asked_and_only_with_get(tab: Tab, url: str, job: FakeControl) -> None:
    tab.open(f"{url}/ui")
    tab.until_text("#sizes", "count-by-word")

    assert {address for address in tab.asked if not address.startswith(f"{url}/")} == set()
    assert job.started == []


def test_what_the_job_says_is_text_and_never_a_document(tab: Tab, url: str, job: FakeControl) -> None:
    bad = "<img src=x onerror=\"document.title='taken'\">"
    query = job.current.queries[0].model_copy(update={"uid": bad})
    job.current = job.current.model_copy(
        update={"job": bad, "queries": (query,), "last_error": _an_error(message=bad, query=bad)}
    )

    tab.open(f"{url}/ui/")
    tab.until_text("#error", "onerror")

    assert tab.value("document.querySelectorAll('img').length") == 0
    assert tab.text("#queries h3") == bad


def test_the_page_works_below_a_path(tab: Tab, url: str) -> None:
    with _behind("/team/words", url) as address:
        tab.open(f"{address}/team/words/ui")
        tab.until_text("#sizes", "count-by-word")

        assert all(one.startswith(f"{address}/team/words/") for one in tab.asked)


@contextmanager
def _behind(prefix: str, upstream: str) -> Iterator[str]:
    """Run a proxy that takes a prefix away, as an ingress does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection = http.client.HTTPConnection(upstream.removeprefix("http://"), timeout=30)
            connection.request("GET", self.path.removeprefix(prefix), headers=dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)
            connection.close()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()


# Who looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [_PHONE_PIXELS, 768, 1200])
def test_nothing_is_wider_than_the_screen(
    chromium: Chromium, url: str, job: FakeControl, width: int, scheme: str
) -> None:
    job.current = job.current.model_copy(update={"last_error": _an_error()})
    with chromium.tab(width=width, scheme=scheme) as tab:
        tab.open(f"{url}/ui/")
        tab.until_text("#sizes", "count-by-word")
        tab.picture(_PICTURES / f"running-{width}-{scheme}.png")

        assert tab.value("document.scrollingElement.scrollWidth") <= width
        assert tab.faults == []


def test_the_dark_scheme_is_dark(chromium: Chromium, url: str) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        with chromium.tab(scheme=scheme) as tab:
            tab.open(f"{url}/ui/")
            tab.until_text("#state", "Running")
            grounds.append(tab.value("getComputedStyle(document.body).backgroundColor"))

    assert grounds == ["rgb(245, 246, 248)", "rgb(16, 21, 27)"]


def test_the_first_key_leads_to_the_queries_and_the_tables_can_be_reached(tab: Tab, url: str) -> None:
    tab.open(f"{url}/ui/")
    tab.until_text("#snapshots", "completed")

    tab.press("Tab")
    assert tab.value("document.activeElement.className") == "skip"
    tab.press("Enter")
    tab.until("document.activeElement.id === 'content'")
    reached = []
    for _ in range(2):
        tab.press("Tab")
        reached.append(tab.value("document.activeElement.getAttribute('aria-label')"))

    assert reached == ["Checkpoints and savepoints, newest first", "Sinks"]


def test_the_focus_stays_where_it_is_while_the_page_goes_on(tab: Tab, url: str, job: FakeControl) -> None:
    tab.open(f"{url}/ui/")
    tab.until_text("#sinks", "orders")
    tab.value("document.querySelector('#sinks .scroll').focus()")

    query = job.current.queries[0].model_copy(update={"input_rows": 7000})
    job.current = job.current.model_copy(update={"queries": (query,)})
    tab.until_text("#queries", "7,000")

    assert tab.value("document.activeElement.getAttribute('aria-label')") == "Sinks"


def test_nothing_jumps_while_the_page_goes_on(tab: Tab, url: str, job: FakeControl) -> None:
    tab.open(f"{url}/ui/")
    tab.until_text("#sizes", "count-by-word")
    before = tab.value(_SHIFT)

    for batch in range(61, 64):
        query = job.current.queries[0].model_copy(update={"batch_id": batch, "input_rows": 100_000 * batch})
        job.current = job.current.model_copy(update={"queries": (query,)})
        job.newest = some_batches(newest=batch, count=60)
        tab.until_text("#queries", f"batch {batch}")

    assert tab.value(_SHIFT) - before < _MOST_SHIFT
