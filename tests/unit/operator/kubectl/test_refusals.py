"""What the API server refuses is a sentence with what to do, and an exit code."""

from __future__ import annotations

import json

import pytest
from statefulspark import errors
from statefulspark_operator.cluster import resources
from statefulspark_operator.kubectl import codes, refusals
from statefulspark_operator.kubectl.codes import PluginExit
from statefulspark_operator.kubectl.refusals import Attempt

GET_JOB = Attempt("get", resources.JOB, "demo", "flights")
LIST_JOBS = Attempt("list", resources.JOB, "demo")
LOG = Attempt("get", resources.POD, "demo", "flights-driver-7", "log")


def answer(message: str) -> bytes:
    return json.dumps({"kind": "Status", "message": message}).encode()


@pytest.mark.parametrize(
    ("attempt", "status", "content", "said", "code"),
    [
        pytest.param(
            Attempt("patch", resources.JOB, "demo", "flights"),
            403,
            answer('statefulsparkjobs.statefulspark.io "flights" is forbidden: User "ann" cannot patch resource'),
            "ann has no right to patch statefulsparkjobs in namespace demo. To grant it, bind this role: kubectl -n demo "
            "create role statefulspark-user --verb=patch --resource=statefulsparkjobs.statefulspark.io",
            PluginExit.REFUSED,
            id="a missing right names verb and resource to grant",
        ),
        pytest.param(
            LOG,
            403,
            answer("forbidden"),
            "You have no right to get pods/log in namespace demo. To grant it, bind this role: kubectl -n demo create role "
            "statefulspark-user --verb=get --resource=pods/log",
            PluginExit.REFUSED,
            id="a subresource, and a server that names nobody",
        ),
        pytest.param(
            Attempt("list", resources.JOB, None),
            403,
            answer("forbidden"),
            "You have no right to list statefulsparkjobs in all namespaces. To grant it, bind this clusterrole: kubectl "
            "create clusterrole statefulspark-user --verb=list --resource=statefulsparkjobs.statefulspark.io",
            PluginExit.REFUSED,
            id="all namespaces need a cluster role",
        ),
        pytest.param(
            GET_JOB,
            401,
            answer("Unauthorized"),
            "The API server does not accept your credentials (Unauthorized); log in again, or choose another --context.",
            PluginExit.REFUSED,
            id="credentials that ended",
        ),
        pytest.param(
            LIST_JOBS,
            404,
            b"404 page not found\n",
            "The cluster knows no statefulsparkjobs.statefulspark.io: the operator's CRD is not installed, or this is "
            "another cluster. Choose one with --context, or install the chart.",
            PluginExit.NOT_FOUND,
            id="another cluster",
        ),
        pytest.param(
            LOG,
            404,
            answer('pods "flights-driver-7" not found'),
            'There is no Pod flights-driver-7 in namespace demo: pods "flights-driver-7" not found',
            PluginExit.NOT_FOUND,
            id="a pod that is gone meanwhile",
        ),
        pytest.param(
            GET_JOB,
            409,
            answer("the object has been modified"),
            "Somebody has changed the job since it was read; nothing was changed. Run the command again.",
            PluginExit.FAILED,
            id="somebody else was faster",
        ),
        pytest.param(
            LOG,
            400,
            answer('container "driver" in pod "flights-driver-7" is waiting to start: ContainerCreating'),
            'The API server cannot get pods/log now: container "driver" in pod "flights-driver-7" is waiting to start: '
            "ContainerCreating",
            PluginExit.REFUSED,
            id="a container that has no log yet",
        ),
        pytest.param(
            Attempt("patch", resources.JOB, "demo", "flights"),
            422,
            answer("spec.suspend: wrong"),
            "The API server refuses it, and nothing was changed: spec.suspend: wrong",
            PluginExit.REFUSED,
            id="a spec that the CRD refuses",
        ),
        pytest.param(
            GET_JOB,
            503,
            b"",
            "The API server answers 503: no message",
            PluginExit.UNREACHABLE,
            id="a server that is away",
        ),
    ],
)
def test_a_refusal_says(attempt: Attempt, status: int, content: bytes, said: str, code: PluginExit) -> None:
    error = refusals.translate(attempt, status, content)

    assert (error.message, codes.exit_code(error)) == (said, code)


@pytest.mark.parametrize(
    ("present", "elsewhere", "said"),
    [
        pytest.param(["words", "flights"], [], "there are: flights, words.", id="others in the namespace"),
        pytest.param(
            [], ["prod/flights"], "the namespace has none. Jobs of other namespaces (-n): prod/flights.", id="elsewhere"
        ),
        pytest.param([], [], "the namespace has none.", id="none, or no right to look"),
    ],
)
def test_a_job_that_does_not_exist_says_what_exists(present: list[str], elsewhere: list[str], said: str) -> None:
    error = refusals.no_such_job("demo", "flihgts", present, elsewhere)

    assert error.message == f"There is no job 'flihgts' in namespace demo; {said}"
    assert codes.exit_code(error) is PluginExit.NOT_FOUND


def test_a_name_may_only_be_left_out_where_one_job_is() -> None:
    several, none = refusals.which_job("demo", ["b", "a"]), refusals.which_job("demo", [])

    assert several.message == "Namespace demo has several jobs; name one: a, b."
    assert (codes.exit_code(several), codes.exit_code(none)) == (PluginExit.REFUSED, PluginExit.NOT_FOUND)


def test_the_codes_that_both_commands_have_are_the_same() -> None:
    unavailable = codes.exit_code(errors.TransientError("TimedOut", "x"))

    assert [code.value for code in PluginExit] == [0, 1, 2, 15, 16, 130]
    assert unavailable == 16


def test_a_savepoint_whose_name_is_taken_or_whose_crd_is_missing_says_what_to_do() -> None:
    attempt = Attempt("create", resources.SAVEPOINT, "demo", "mine")

    taken, unknown = refusals.translate(attempt, 409, b"{}"), refusals.translate(attempt, 404, b"404 page not found")

    assert (taken.reason, taken.message) == (
        "Exists",
        "There is a SparkSavepoint mine already in namespace demo; choose another --name.",
    )
    assert unknown.reason == "CrdNotFound"
    assert "The cluster knows no sparksavepoints.statefulspark.io" in unknown.message
