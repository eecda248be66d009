"""Which configurations and stored specs of a job are unneeded: a table of what refers to them."""

from __future__ import annotations

import pytest
from situations import LONG_AGO, NOW, OTHER, REVISION, a_driver, a_job, a_pod, a_situation
from statefulspark_operator.api import names
from statefulspark_operator.api.status import (
    DriverState,
    Phase,
    StandbyState,
    StandbyStatus,
    UpgradeState,
    UpgradeStatus,
)
from statefulspark_operator.lifecycle import leftovers
from statefulspark_operator.lifecycle.leftovers import StoredObject
from statefulspark_operator.lifecycle.situation import Situation

OLD = "0123456789"
STANDBY = StandbyStatus(number=2, pod="flights-standby-2", revision=OLD, state=StandbyState.READY, since=LONG_AGO)
UPGRADE = UpgradeStatus(
    from_revision=OLD, to_revision=REVISION, generation=1, state=UpgradeState.STABLE, requested_at=LONG_AGO
)


def unneeded_configs(situation: Situation, *configs: str) -> list[str]:
    found = leftovers.unneeded(
        situation, situation.status, configs=[StoredObject(name, f"uid of {name}") for name in configs], revisions=()
    )
    return [kept.name for kept in found.configs]


def unneeded_revisions(situation: Situation, *revisions: str) -> list[str]:
    stored = [StoredObject(names.controller_revision("flights", revision), "uid") for revision in revisions]
    found = leftovers.unneeded(situation, situation.status, configs=(), revisions=stored)
    return [kept.name.removeprefix("flights-") for kept in found.revisions]


@pytest.mark.parametrize(
    ("situation", "config"),
    [
        pytest.param(
            a_situation(epoch=3, driver=a_driver(epoch=3, pod="flights-driver-3")),
            "flights-config-3",
            id="of the running driver",
        ),
        pytest.param(a_situation(epoch=3), "flights-config-4", id="of an epoch that is about to be recorded"),
        pytest.param(
            a_situation(epoch=3, pods=(a_pod(2), a_pod(3))), "flights-config-2", id="of a pod that still exists"
        ),
        pytest.param(
            a_situation(epoch=3, driver=a_driver(DriverState.ENDED, epoch=2, pod="flights-driver-2"), pods=()),
            "flights-config-2",
            id="of the last driver that is recorded, for its log",
        ),
        pytest.param(a_situation(epoch=3), "flights-settings", id="with a name of the user's"),
        pytest.param(a_situation(epoch=3), "flights-config-2-old", id="with a name that only begins like ours"),
        pytest.param(a_situation(epoch=3), "other-config-2", id="with the name of another job's"),
        pytest.param(a_situation(epoch=3, standby_count=1), "flights-standby-2-config", id="of a standby to come"),
        pytest.param(
            a_situation(epoch=3, standby_count=2, standby=STANDBY), "flights-standby-2-config", id="of the standby"
        ),
        pytest.param(
            a_situation(epoch=3, standby_count=2, driver=a_driver(epoch=3, pod="flights-standby-2"), pods=()),
            "flights-standby-2-config",
            id="of a standby that became the driver",
        ),
        pytest.param(
            a_situation(epoch=3, job=a_job(deletion_requested_at=NOW)),
            "flights-config-2",
            id="of a job that goes anyway",
        ),
        pytest.param(a_situation(epoch=3, spec=None), "flights-config-2", id="of a job whose spec nobody can read"),
    ],
)
def test_a_configuration_stays(situation: Situation, config: str) -> None:
    assert unneeded_configs(situation, config) == []


def test_configurations_of_epochs_and_standbys_that_are_over_are_unneeded() -> None:
    situation = a_situation(
        epoch=3, standby_count=4, driver=a_driver(epoch=3, pod="flights-driver-3"), pods=(a_pod(3),)
    )
    past = ("flights-config-1", "flights-config-2", "flights-standby-4-config")

    assert unneeded_configs(situation, *past, "flights-config-3") == list(past)


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(a_situation(revision=OLD), id="the one that ran last"),
        pytest.param(a_situation(driver=a_driver(revision=OLD)), id="the driver's"),
        pytest.param(a_situation(standby=STANDBY), id="the standby's"),
        pytest.param(a_situation(upgrade=UPGRADE), id="that an upgrade may go back to"),
        pytest.param(a_situation(withheld=OLD), id="that was refused"),
        pytest.param(a_situation(pods=(a_pod(revision=OLD),)), id="of a pod that still exists"),
    ],
)
def test_the_spec_of_a_revision_stays_that(situation: Situation) -> None:
    assert unneeded_revisions(situation, OLD, REVISION) == []


def test_the_spec_of_a_revision_that_nothing_names_is_unneeded() -> None:
    assert unneeded_revisions(a_situation(), OLD, OTHER, REVISION) == [OLD, OTHER]


def test_nothing_is_looked_for_while_the_job_is_in_a_transition() -> None:
    upgrading, running = a_situation(phase=Phase.UPGRADING), a_situation(phase=Phase.RUNNING)

    assert leftovers.come_to(upgrading, upgrading.status) is None
    assert leftovers.come_to(running, running.status) is not None
