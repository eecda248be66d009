"""What the plugin changes in a spec, and what it refuses to."""

from __future__ import annotations

import pytest
from fakecluster import apply_merge_patch
from hypothesis import given
from hypothesis import strategies as st
from kubectlworld import (
    HISTORY,
    NEW_REVISION,
    OLD_REVISION,
    OLD_SPEC,
    SPEC,
    a_stored_status,
    a_view,
    before,
    revision,
)
from statefulspark import errors
from statefulspark_operator.api.revision import revision_of, running_spec
from statefulspark_operator.api.spec import SavepointForm, StatefulSparkJobSpec
from statefulspark_operator.api.status import Phase, StallStatus, UpgradeState, UpgradeStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl import requests
from statefulspark_operator.kubectl.requests import Target
from statefulspark_operator.kubectl.view import View


def an_upgrade_on(state: UpgradeState, **changes: object) -> UpgradeStatus:
    upgrade = UpgradeStatus(
        from_revision=OLD_REVISION, to_revision=NEW_REVISION, generation=4, state=state, requested_at=before(minutes=4)
    )
    return upgrade.model_copy(update=changes)


@pytest.mark.parametrize("name", [None, "before-the-move"])
def test_a_savepoint_is_asked_for_by_an_object_and_the_job_is_not_changed(name: str | None) -> None:
    asked = requests.savepoint(a_view(), name, SavepointForm.CANONICAL)

    named = {"generateName": "flights-"} if name is None else {"name": name}
    assert asked["metadata"] == {**named, "namespace": "demo"}
    assert resources.text(asked, "spec", "format") == "Canonical"


def test_suspend_and_resume_change_only_what_is_not_so_already() -> None:
    running, suspended = a_view(), a_view(spec={**SPEC, "suspend": True})

    assert (requests.suspend(running) or {})["spec"] == {"suspend": True}
    assert requests.suspend(suspended) is None
    assert (requests.resume(suspended) or {})["spec"] == {"suspend": False}
    assert requests.resume(running) is None


@pytest.mark.parametrize(
    "ask", [lambda view: requests.savepoint(view, None, SavepointForm.NATIVE), requests.suspend, requests.resume]
)
def test_nothing_is_asked_of_a_job_that_is_being_deleted(ask: object) -> None:
    with pytest.raises(errors.SpecRejectedError, match="is being deleted since 11:59:40 UTC"):
        ask(a_view(deletionTimestamp="2026-01-01T11:59:40Z"))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("view", "wanted", "target"),
    [
        pytest.param(a_view(), None, Target(OLD_REVISION), id="the revision that ran before"),
        pytest.param(a_view(), OLD_REVISION, Target(OLD_REVISION), id="one by name"),
        pytest.param(
            a_view(a_stored_status(history=HISTORY[:1], upgrade=an_upgrade_on(UpgradeState.STABLE))),
            None,
            Target(OLD_REVISION),
            id="the history has forgotten it, the upgrade has not",
        ),
        pytest.param(
            a_view(a_stored_status(revision=OLD_REVISION, upgrade=an_upgrade_on(UpgradeState.BLOCKED))),
            None,
            Target(OLD_REVISION),
            id="a blocked upgrade: what runs",
        ),
        pytest.param(
            a_view(a_stored_status(upgrade=an_upgrade_on(UpgradeState.STARTING, from_revision="0a1b2c3d4e"))),
            None,
            Target("0a1b2c3d4e"),
            id="an upgrade that is being carried out: what ran before it",
        ),
        pytest.param(
            a_view(
                a_stored_status(
                    phase=Phase.STALLED,
                    upgrade=an_upgrade_on(UpgradeState.STARTING),
                    stalled=StallStatus(generation=4, reason="RollbackNeeded", message="line 17"),
                )
            ),
            None,
            Target(OLD_REVISION, by_policy=True),
            id="a rollback that waits for a person is the operator's own, from the savepoint of the stop",
        ),
        pytest.param(
            a_view(spec={**SPEC, "image": 5}), None, Target(NEW_REVISION), id="a spec that is no spec: what runs"
        ),
    ],
)
def test_a_rollback_goes_to(view: View, wanted: str | None, target: Target) -> None:
    assert requests.rollback_target(view, wanted) == target


@pytest.mark.parametrize(
    ("view", "wanted", "said"),
    [
        pytest.param(
            a_view(a_stored_status(history=HISTORY[:1])), None, "no other revision in its history has run", id="first"
        ),
        pytest.param(a_view(), NEW_REVISION, f"already is revision {NEW_REVISION}", id="what the spec is"),
        pytest.param(
            a_view(), "beef", f"no revision 'beef' .* there are: {NEW_REVISION}, {OLD_REVISION}", id="an unknown one"
        ),
    ],
)
def test_a_rollback_to_nothing_is_refused(view: View, wanted: str | None, said: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=said):
        requests.rollback_target(view, wanted)


def stored(spec: Resource) -> Resource:
    """Return a spec as a ControllerRevision has it."""
    dumped: Resource = StatefulSparkJobSpec.model_validate(spec).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return dumped


def rolled_back(current: Resource, old: Resource) -> Resource:
    patch = requests.rollback(a_view(spec=current), revision(old), stored(old))
    return apply_merge_patch(current, resources.section(patch, "spec"))


def test_a_rollback_brings_back_what_costs_a_restart_and_keeps_the_rest() -> None:
    current = {**SPEC, "deletionPolicy": "Delete", "checkpoint": {"interval": "10s"}, "sparkConf": {"a": "1"}}
    old = {**OLD_SPEC, "deletionPolicy": "Savepoint", "sparkConf": {"b": "2"}, "restartNonce": "x"}

    assert rolled_back(current, old) == {
        **OLD_SPEC,
        "deletionPolicy": "Delete",
        "checkpoint": {"interval": "10s"},
        "sparkConf": {"b": "2"},
        "restartNonce": "x",
    }


SPECS = st.fixed_dictionaries(
    {
        "image": st.sampled_from(["i:1", "i:2"]),
        "job": st.fixed_dictionaries(
            {"file": st.just("/a.py")}, optional={"parameters": st.dictionaries(st.sampled_from("ab"), st.just("1"))}
        ),
        "storage": st.just({"uri": "s3://state/jobs"}),
    },
    optional={
        "driver": st.fixed_dictionaries(
            {},
            optional={
                "standby": st.booleans(),
                "env": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from("AB"), "value": st.just("1")}), max_size=2
                ),
                "podTemplate": st.fixed_dictionaries({}, optional={"metadata": st.just({"labels": {"a": "b"}})}),
            },
        ),
        "executor": st.fixed_dictionaries({"instances": st.integers(1, 2)}),
        "checkpoint": st.fixed_dictionaries({}, optional={"interval": st.sampled_from(["10s", "1m", "60s"])}),
        "sparkConf": st.dictionaries(st.sampled_from(["spark.a", "spark.b"]), st.sampled_from("12")),
        "restartNonce": st.sampled_from("xy"),
        "suspend": st.booleans(),
    },
)


@given(current=SPECS, old=SPECS)
def test_after_a_rollback_the_spec_is_that_revision_and_all_else_is_as_it_was(current: Resource, old: Resource) -> None:
    after = StatefulSparkJobSpec.model_validate(rolled_back(current, old))

    before_it, target = (StatefulSparkJobSpec.model_validate(spec) for spec in (current, old))
    assert revision_of(after) == revision_of(target)
    assert after == running_spec(before_it, target)


def test_a_spec_that_is_no_spec_becomes_the_whole_stored_one() -> None:
    current: Resource = {**SPEC, "image": 5}

    assert rolled_back(current, {**OLD_SPEC, "suspend": False}) == OLD_SPEC


def test_a_revision_of_another_release_is_not_restored_in_part() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"revision beef000000 cannot be restored.*Nothing was changed"):
        requests.rollback(a_view(), "beef000000", {**stored(OLD_SPEC), "later": {"field": 1}})
    with pytest.raises(errors.SpecRejectedError, match="install the release of the operator that runs"):
        requests.rollback(a_view(), OLD_REVISION, {"image": 5})
