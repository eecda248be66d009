"""The commands on a cluster in memory: what they change, what they say while they wait, and how they end."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from kubectlworld import (
    NEW_REVISION,
    NOW,
    OLD_REVISION,
    OLD_SPEC,
    SAVEPOINT,
    SPEC,
    FakeCluster,
    Screen,
    a_recorded_driver,
    a_stored_job,
    a_stored_pod,
    a_stored_standby_pod,
    a_stored_status,
    a_view,
    a_waiting_pod,
    an_ended_pod,
    an_event,
    before,
    not_ready,
    told,
)
from pydantic import JsonValue
from statefulspark import errors
from statefulspark.commandline.output import OutputFormat
from statefulspark_operator.api.spec import SavepointForm
from statefulspark_operator.api.status import (
    Phase,
    StandbyState,
    StandbyStatus,
    StatefulSparkJobStatus,
)
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl import commands, driver_logs, main, program, reading
from statefulspark_operator.kubectl.codes import PluginExit
from statefulspark_operator.kubectl.commands import Command
from statefulspark_operator.kubectl.driver_logs import LogChoice, Whose
from statefulspark_operator.kubectl.terminal import Terminal
from statefulspark_operator.kubectl.view import View

MINUTE = timedelta(minutes=1)


def on(cluster: FakeCluster, screen: Screen, **changes: object) -> Command:
    command = Command(cluster, screen.terminal, "demo", "flights", timeout=MINUTE)
    return dataclasses.replace(command, **changes)  # type: ignore[arg-type]


def an_answer(cluster: FakeCluster, **status: JsonValue) -> Callable[[Resource], None]:
    """Play the operator: write the status of the only SparkSavepoint."""

    def write(_job: Resource) -> None:
        (asked,) = cluster.savepoints.values()
        asked["status"] = dict(status)

    return write


def asked_for(cluster: FakeCluster, screen: Screen, name: str | None = None, **changes: object) -> PluginExit:
    return commands.create_savepoint(on(cluster, screen, **changes), name, SavepointForm.NATIVE)


def test_a_savepoint_is_requested_waited_for_and_its_place_printed() -> None:
    cluster, screen = FakeCluster(), Screen()
    cluster.steps += [
        an_answer(cluster, phase="InProgress"),
        an_answer(cluster, phase="Completed", location=SAVEPOINT),
    ]

    assert asked_for(cluster, screen) is PluginExit.DONE

    assert cluster.patches == []
    assert list(cluster.savepoints) == ["flights-x7k2p"]
    assert "SparkSavepoint flights-x7k2p asks for it.\n" in screen.err.getvalue()
    assert "The driver is taking the savepoint.\n" in screen.err.getvalue()
    assert screen.out.getvalue() == f"Savepoint complete: {SAVEPOINT}\n"


def test_a_program_reads_what_came_of_a_savepoint() -> None:
    cluster, screen = FakeCluster(), Screen()
    cluster.steps += [an_answer(cluster, phase="Completed", location=SAVEPOINT)]

    asked_for(cluster, screen, "mine", form=OutputFormat.JSON)

    assert json.loads(screen.out.getvalue()) == {
        "namespace": "demo",
        "name": "flights",
        "command": "savepoint",
        "outcome": "Done",
        "message": f"Savepoint complete: {SAVEPOINT}",
        "snapshot": SAVEPOINT,
    }


def test_a_savepoint_that_fails_ends_with_1_and_the_reason() -> None:
    cluster, screen = FakeCluster(), Screen()
    cluster.steps += [an_answer(cluster, phase="Failed", message="disk full")]

    assert asked_for(cluster, screen) is PluginExit.FAILED
    assert screen.out.getvalue() == "The savepoint failed: disk full\n"


def test_a_command_that_waits_too_long_says_that_it_goes_on() -> None:
    with pytest.raises(
        errors.TransientError, match="was not complete within 1m, and continues: The operator has not seen"
    ):
        asked_for(FakeCluster(), Screen())


def test_a_status_that_changes_at_the_same_moment_does_not_keep_a_change_from_being_made() -> None:
    busy, hopeless = FakeCluster(conflicts=2), FakeCluster(conflicts=commands.PATCHES)

    assert commands.suspend(on(busy, Screen(), timeout=None)) is PluginExit.DONE
    assert len(busy.patches) == 1
    with pytest.raises(errors.PreconditionFailedError, match=r"nothing was changed\. Run the command again"):
        commands.suspend(on(hopeless, Screen(), timeout=None))


def away(_job: Resource) -> None:
    raise errors.TransientError("ApiServerUnavailable", "The API server does not answer.")


def test_an_api_server_that_is_away_for_a_moment_does_not_end_the_wait() -> None:
    cluster = FakeCluster(job=a_stored_job(a_stored_status(), {**SPEC, "suspend": True}), steps=[away, away, told()])
    screen = Screen()

    assert commands.resume(on(cluster, screen)) is PluginExit.DONE
    assert screen.err.getvalue() == "The API server does not answer.\n"


def test_a_watch_goes_on_after_an_api_server_that_was_away() -> None:
    def interrupted(_job: Resource) -> None:
        raise KeyboardInterrupt

    cluster, screen = FakeCluster(steps=[away, told(), interrupted], patches=[{}]), Screen()
    with pytest.raises(KeyboardInterrupt):
        commands.watch_status(on(cluster, screen))

    assert screen.err.getvalue() == "The API server does not answer.\n"
    assert screen.out.getvalue().count("demo/flights\n") == 1


def test_no_wait_returns_at_once() -> None:
    cluster, screen = FakeCluster(), Screen()

    assert commands.suspend(on(cluster, screen, timeout=None)) is PluginExit.DONE
    assert [patch["spec"] for patch in cluster.patches] == [{"suspend": True}]
    assert screen.out.getvalue().startswith("Requested.")


def test_suspending_a_suspended_job_changes_nothing_and_says_where_its_state_is() -> None:
    status = a_stored_status(phase=Phase.SUSPENDED)
    cluster, screen = FakeCluster(job=a_stored_job(status, {**SPEC, "suspend": True})), Screen()

    assert commands.suspend(on(cluster, screen)) is PluginExit.DONE
    assert cluster.patches == []
    assert screen.out.getvalue() == "Suspended; a start continues from checkpoint 51\n"


def test_a_resumed_job_that_stalls_ends_with_1() -> None:
    steps = [
        told(phase=Phase.STARTING, conditions=not_ready("DriverStarting", "x"), message="x"),
        told(phase=Phase.RUNNING),
    ]
    cluster, screen = (
        FakeCluster(job=a_stored_job(a_stored_status(phase=Phase.SUSPENDED), {**SPEC, "suspend": True}), steps=steps),
        Screen(),
    )

    assert commands.resume(on(cluster, screen)) is PluginExit.DONE
    assert [patch["spec"] for patch in cluster.patches] == [{"suspend": False}]
    assert screen.err.getvalue() == "Starting: x\n"
    assert screen.out.getvalue() == f"Running as epoch 7, revision {NEW_REVISION}, from {SAVEPOINT}\n"


def test_a_rollback_makes_the_spec_that_of_the_revision_before() -> None:
    cluster = FakeCluster(revisions={f"flights-{OLD_REVISION}": OLD_SPEC}, steps=[told(revision=OLD_REVISION)])
    screen = Screen()

    assert commands.rollback(on(cluster, screen), None) is PluginExit.DONE
    assert cluster.job is not None
    assert cluster.job["spec"] == OLD_SPEC
    assert (
        "A tool that applies the manifest (Argo CD, Flux) undoes this in the fields that the manifest has"
        in screen.err.getvalue()
    )
    assert screen.out.getvalue() == f"Running as epoch 7, revision {OLD_REVISION}, from {SAVEPOINT}\n"


def test_a_rollback_to_a_revision_that_is_not_stored_changes_nothing() -> None:
    cluster = FakeCluster()

    with pytest.raises(
        errors.SpecRejectedError, match=f"no ControllerRevision flights-{OLD_REVISION} in namespace demo"
    ):
        commands.rollback(on(cluster, Screen()), None)
    assert cluster.patches == []


def test_status_shows_the_page_and_why_ends_with_1_if_the_job_is_not_ready() -> None:
    ill = FakeCluster(
        job=a_stored_job(a_stored_status(conditions=not_ready("Unschedulable", "no room"))),
        events=(an_event("StandbyEnded", "it ended", before(minutes=1)),),
    )
    well, screen = FakeCluster(pods=(a_stored_pod(),)), Screen()

    assert commands.why(on(ill, screen)) is PluginExit.FAILED
    assert "Why:         Unschedulable (for 3h): no room" in screen.out.getvalue()
    assert "1m   StandbyEnded: it ended" in screen.out.getvalue()
    assert commands.why(on(well, Screen())) is PluginExit.DONE
    assert commands.status(on(ill, Screen())) is PluginExit.DONE


def test_a_page_as_json_is_the_report() -> None:
    screen = Screen()

    commands.history(on(FakeCluster(), screen, form=OutputFormat.JSON))

    shown = json.loads(screen.out.getvalue())
    assert (shown["requested"], shown["running"]) == (NEW_REVISION, NEW_REVISION)
    assert [record["outcome"] for record in shown["revisions"]] == ["Stable", "Stable"]


def test_watching_shows_a_page_again_only_when_something_has_changed() -> None:
    class Watched(FakeCluster):
        reads = 0

        def get(self, kind: object, namespace: str, name: str) -> Resource | None:
            self.reads += 1
            if self.reads == 5:
                raise KeyboardInterrupt
            version = "100" if self.reads < 4 else "101"
            return a_stored_job(resourceVersion=version)

    screen = Screen()
    with pytest.raises(KeyboardInterrupt):
        commands.watch_status(on(Watched(), screen))

    assert screen.out.getvalue().count("demo/flights\n") == 2


def test_colours_are_for_terminals_that_want_them() -> None:
    pages = {}
    for name, screen in {
        "terminal": Screen(is_terminal=True),
        "pipe": Screen(),
        "NO_COLOR": Screen(is_terminal=True, NO_COLOR="1"),
        "dumb": Screen(is_terminal=True, TERM="dumb"),
    }.items():
        commands.status(on(FakeCluster(), screen))
        pages[name] = "\033[" in screen.out.getvalue()

    assert pages == {"terminal": True, "pipe": False, "NO_COLOR": False, "dumb": False}


def test_what_may_not_be_read_is_named_and_the_rest_is_shown() -> None:
    cluster, screen = FakeCluster(forbidden=frozenset({"list pods", "list events"})), Screen()

    assert commands.status(on(cluster, screen)) is PluginExit.DONE
    assert screen.out.getvalue().count("Not read:") == 2
    assert "ann has no right to list pods in namespace demo" in screen.out.getvalue()
    assert "flights-driver-7, epoch 7" in screen.out.getvalue()


def test_events_of_an_earlier_job_of_the_same_name_are_not_shown() -> None:
    own = resources.text(a_stored_job(), "metadata", "uid")
    events = (
        an_event("Deleting", "of the earlier job", before(minutes=3), uid="uid-of-the-earlier"),
        an_event("DriverStarting", "of this job", before(minutes=1), uid=own),
        an_event("Unhealthy", "of its pod", before(minutes=1), about="flights-driver-7", uid="uid-7"),
        an_event("Killing", "of an earlier pod", before(minutes=3), about="flights-driver-7", uid="uid-of-another"),
    )
    ill = a_stored_job(a_stored_status(conditions=not_ready("Unschedulable", "no room")))
    cluster, screen = FakeCluster(job=ill, pods=(a_stored_pod(),), events=events), Screen()

    commands.why(on(cluster, screen))

    shown = screen.out.getvalue()
    assert [text in shown for text in ("of this job", "of the earlier job", "of an earlier pod")] == [
        True,
        False,
        False,
    ]


def test_a_right_that_is_missing_to_change_a_job_is_named() -> None:
    cluster = FakeCluster(forbidden=frozenset({"patch statefulsparkjobs"}))

    with pytest.raises(errors.SpecRejectedError, match="ann has no right to patch statefulsparkjobs"):
        commands.suspend(on(cluster, Screen()))


def test_a_job_that_is_not_there_lists_what_is() -> None:
    def asked(cluster: FakeCluster) -> str:
        with pytest.raises(errors.SpecRejectedError) as raised:
            reading.job(cluster, "demo", "flihgts", lambda: NOW)
        return raised.value.message

    assert asked(FakeCluster()) == "There is no job 'flihgts' in namespace demo; there are: flights."
    assert "Jobs of other namespaces (-n): prod/words." in asked(FakeCluster(job=None, others=("prod/words",)))


def test_the_only_job_of_a_namespace_need_not_be_named() -> None:
    assert reading.chosen(FakeCluster(), "demo", None) == "flights"
    with pytest.raises(errors.SpecRejectedError, match="name one: flights, words"):
        reading.chosen(FakeCluster(others=("demo/words",)), "demo", None)


def test_a_status_of_a_later_release_is_named_and_not_guessed() -> None:
    job = a_stored_job()
    driver: Resource = {
        "epoch": 1,
        "revision": "a",
        "state": "Levitating",
        "pod": "p",
        "decisionTime": "2026-01-01T00:00:00Z",
    }
    job["status"] = {"driver": driver}

    with pytest.raises(errors.SpecRejectedError, match=r"cannot read the job's status: status\.driver.*'Levitating'"):
        reading.job(FakeCluster(job=job), "demo", "flights", lambda: NOW)


STARTING = a_stored_status(phase=Phase.STARTING)
REFUSED = StandbyStatus(
    number=3, pod="flights-standby-3", revision=NEW_REVISION, state=StandbyState.REFUSED, since=NOW, message="line 17"
)


@pytest.mark.parametrize(
    ("view", "whose", "choice"),
    [
        pytest.param(
            a_view(pods=(an_ended_pod(6), a_stored_pod())),
            Whose.MATTERS,
            LogChoice("flights-driver-7", "driver of epoch 7"),
            id="the one that runs",
        ),
        pytest.param(
            a_view(STARTING, pods=(an_ended_pod(6, 13), a_waiting_pod("ContainerCreating"))),
            Whose.MATTERS,
            LogChoice("flights-driver-6", "driver of epoch 6, which ended with 13 (Error)"),
            id="the next one has no log yet",
        ),
        pytest.param(
            a_view(STARTING, pods=(a_waiting_pod("ContainerCreating"),)),
            Whose.MATTERS,
            LogChoice("flights-driver-7", "driver of epoch 7"),
            id="the first one starts: the API server says that it has no log",
        ),
        pytest.param(
            a_view(pods=(an_ended_pod(5), an_ended_pod(6, 137, "OOMKilled"))),
            Whose.MATTERS,
            LogChoice("flights-driver-6", "driver of epoch 6, which ended with 137 (OOMKilled)"),
            id="none runs",
        ),
        pytest.param(
            a_view(pods=(an_ended_pod(6), a_stored_pod())),
            Whose.PREVIOUS,
            LogChoice("flights-driver-6", "driver of epoch 6, which ended with 1 (Error)"),
            id="the one before",
        ),
        pytest.param(
            a_view(pods=(a_stored_pod(), a_stored_standby_pod())),
            Whose.STANDBY,
            LogChoice("flights-standby-3", "standby"),
            id="standby",
        ),
    ],
)
def test_the_log_that_matters_is(view: View, whose: Whose, choice: LogChoice) -> None:
    assert driver_logs.choose(view, whose) == choice


@pytest.mark.parametrize(
    ("status", "whose", "said"),
    [
        pytest.param(
            a_stored_status(phase=Phase.SUSPENDED), Whose.MATTERS, "no pod of a driver .* is Suspended", id="suspended"
        ),
        pytest.param(a_stored_status(), Whose.PREVIOUS, "no pod of an ended driver", id="the first driver still runs"),
        pytest.param(StatefulSparkJobStatus(), Whose.MATTERS, "the job is not started", id="not started"),
        pytest.param(
            a_stored_status(standby=REFUSED),
            Whose.STANDBY,
            "no standby now. The last one, .* is Refused: line 17",
            id="refused",
        ),
    ],
)
def test_a_log_that_is_gone_says_why(status: StatefulSparkJobStatus, whose: Whose, said: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=said):
        driver_logs.choose(a_view(status), whose)


def test_logs_say_whose_they_are_beside_the_log() -> None:
    cluster, screen = FakeCluster(pods=(a_stored_pod(),), logs={"flights-driver-7": "one\nzwölf\n"}), Screen()

    assert commands.logs(on(cluster, screen), Whose.MATTERS, follow=False, tail=1) is PluginExit.DONE
    assert (screen.out.getvalue(), screen.err.getvalue()) == ("zwölf\n", "flights-driver-7: driver of epoch 7\n")


def test_a_character_that_comes_in_two_pieces_of_a_log_stays_whole() -> None:
    cluster, screen = FakeCluster(pods=(a_stored_pod(),), logs={"flights-driver-7": "abö äß€\n"}), Screen()

    commands.logs(on(cluster, screen), Whose.MATTERS, follow=True, tail=None)

    assert screen.out.getvalue() == "abö äß€\n"


def test_an_empty_log_says_where_to_look() -> None:
    cluster, screen = FakeCluster(pods=(a_stored_pod(),), logs={"flights-driver-7": ""}), Screen()

    commands.logs(on(cluster, screen), Whose.MATTERS, follow=False, tail=None)

    assert screen.err.getvalue().endswith("what the driver waits for: kubectl statefulspark why flights -n demo\n")


COMMANDS = [
    *(name for name in program.program.commands if name != "savepoint"),
    *(f"savepoint {name}" for name in program.savepoint.commands),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*name.split(), "--help"]) == 0

    shown = capsys.readouterr().out
    assert f"kubectl statefulspark {name}" in shown.partition("examples:")[2]
    assert name == "version" or {"--namespace", "--context"} <= set(shown.replace(",", "").split())


def test_a_duration_that_is_none_is_refused_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["savepoint", "create", "flights", "--timeout", "soon"]) == PluginExit.REFUSED

    assert "'soon' must be a number with a unit: 500ms, 10s" in capsys.readouterr().err


def test_a_command_that_does_not_exist_is_refused_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["savepoint", "crate", "flights"]) == PluginExit.REFUSED

    assert capsys.readouterr().err == (
        "error: No such command 'crate'. Did you mean 'create'? See `kubectl statefulspark savepoint --help`.\n"
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (OutputFormat.NAME, "sparksavepoint.statefulspark.io/mine\n"),
        (OutputFormat.YAML, "namespace: demo\nname: flights\ncommand: savepoint\noutcome: Requested\n"),
    ],
)
def test_a_script_gets_the_name_of_what_it_can_wait_for(form: OutputFormat, text: str) -> None:
    screen = Screen()

    asked_for(FakeCluster(), screen, "mine", form=form, timeout=None)

    assert screen.out.getvalue().startswith(text)


def test_a_driver_that_is_only_recorded_is_not_called_ended() -> None:
    cluster, screen = (
        FakeCluster(job=a_stored_job(a_stored_status(driver=a_recorded_driver(pod="flights-driver-7")))),
        Screen(),
    )

    commands.status(on(cluster, screen))

    assert "Driver:      flights-driver-7, epoch 7, revision" in screen.out.getvalue()
    assert "ended" not in screen.out.getvalue()


def test_the_terminal_is_the_process_unless_told_otherwise() -> None:
    assert Terminal().now().tzinfo is not None
