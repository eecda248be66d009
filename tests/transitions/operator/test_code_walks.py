"""Lives of a job whose code is in a ConfigMap: it is edited, lost and put back while everything else happens, too."""

from __future__ import annotations

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from statefulspark_operator.api.status import UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle import steps as upgrade_steps
from walks import STEPS, Step, Walk

MAP = ("ConfigMap", "demo", "code")
NOTICED_WITHIN_S = 35
EDIT, LOSE = "edit the code", "lose the code"
SEVERAL = st.lists(
    st.tuples(st.sampled_from([*sorted(STEPS), EDIT, EDIT, EDIT, LOSE]), st.integers(1, 30)), min_size=1, max_size=14
)


class CodeWalk(Walk):
    """A walk through a world in which the job's code is in a ConfigMap."""

    def __init__(self, *, is_watched: bool) -> None:
        super().__init__()
        self.world.code_watches.is_open = is_watched
        self._edit(0)
        source: resources.Resource = {"configMap": {"name": "code", "key": "flights.py"}}
        self.world.change({"job": {"file": None, "source": source}})

    def take(self, step: Step) -> None:
        name, number = step
        if name == EDIT:
            self._edit(number)
        elif name == LOSE:
            self.world.cluster.objects.pop(MAP, None)
            self.world.code_watches.show("code")
        else:
            super().take(step)

    def settle(self) -> None:
        if MAP not in self.world.cluster.objects:
            self._edit(0)
        self.dies_in = None
        self.world.storage.unreadable = None
        self.run(NOTICED_WITHIN_S)
        super().settle()
        if self._is_meant_to_run():
            assert self._mounted() == self._written()

    def _edit(self, number: int) -> None:
        text: resources.Resource = {"flights.py": f"version {number}"}
        if MAP in self.world.cluster.objects:
            self.world.cluster.objects[MAP]["data"] = text
            self.world.code_watches.show("code")
            return
        meta: resources.Resource = {"name": "code", "namespace": "demo"}
        self.world.cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": text})

    def _is_meant_to_run(self) -> bool:
        """Tell whether the job runs what is asked for: it is not suspended, deleted or stalled, and nothing is withheld."""
        if self.is_deleted or not self.world.exists:
            return False
        status = self.world.status
        not_carried_out = {*upgrade_steps.WITHHELD, UpgradeState.ABORTED}
        is_withheld = status.upgrade is not None and status.upgrade.state in not_carried_out
        return status.stalled is None and not is_withheld and self.world.driver.exit_code is None

    def _mounted(self) -> str:
        pod = self.world.cluster.objects["Pod", "demo", self.world.driver.pod]
        volume = next(each for each in resources.items(pod, "spec", "volumes") if each["name"] == "job-code")
        kept = self.world.cluster.objects["ConfigMap", "demo", resources.text(volume, "configMap", "name")]
        return base64.b64decode(resources.text(kept, "binaryData", "flights.py")).decode()

    def _written(self) -> str:
        return resources.text(self.world.cluster.objects[MAP], "data", "flights.py")


@pytest.mark.parametrize("is_watched", [False, True], ids=["looked at", "watched"])
@settings(max_examples=15, suppress_health_check=list(HealthCheck), print_blob=True)
@given(steps=SEVERAL)
def test_a_job_runs_the_code_of_its_config_map_in_the_end_whatever_happens(is_watched: bool, steps: list[Step]) -> None:
    walk = CodeWalk(is_watched=is_watched)
    walk.run(20)

    for step in steps:
        walk.take(step)
        walk.run(step[1])

    walk.settle()
