"""A cluster is gone, its bucket is not: the same manifest goes on in a new one after the one line of the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apiserver import ROOT, running
from operatorscene import Operator, Scene, as_operator, serving
from s3server import S3Server
from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark_operator.cluster import resources

pytestmark = [pytest.mark.api, pytest.mark.s3]

PAGE = ROOT / "docs" / "howto" / "rebuild-a-cluster.md"
NAMESPACE = "shop"


@contextmanager
def cluster(folder: Path, s3: S3Server, *, before: Scene | None = None) -> Iterator[Scene]:
    """Run a cluster with an operator, and the job of the cluster before with its bucket."""
    folder.mkdir()
    with running(folder) as server, serving() as port:
        server.call("create", "namespace", NAMESPACE)
        kubeconfig = as_operator(server, (NAMESPACE,), folder)
        process = Operator(kubeconfig, (NAMESPACE,), folder, endpoints=(s3.endpoint,))
        scene = Scene(server, NAMESPACE, process, s3, port)
        if before is not None:
            scene.spec, scene.store = before.spec, before.store
        process.start()
        try:
            yield scene
        finally:
            process.kill()


def stalled(scene: Scene) -> tuple[str, str, str]:
    """Return reason, message and answer of the condition Stalled."""
    conditions = {one["type"]: one for one in resources.items(scene.status(), "conditions")}
    answer = conditions.get("Stalled", {})
    return resources.text(answer, "reason"), resources.text(answer, "message"), resources.text(answer, "status")


def test_the_same_manifest_goes_on_in_a_new_cluster_after_one_documented_line(s3: S3Server, tmp_path: Path) -> None:
    (patch,) = re.findall(r"^ +patch: '(.+)'$", PAGE.read_text(), re.M)
    with cluster(tmp_path / "old", s3) as old:
        old.apply()
        old.play_driver(1)
        old.until_phase("Running")
        old.until("checkpoint", lambda: resources.find(old.status(), "lastCheckpoint") is not None)
        kept = resources.number(old.status(), "lastCheckpoint", "id")
        owner = epochs.read_owner(old.store)

    with cluster(tmp_path / "new", s3, before=old) as new:
        new.apply()
        with pytest.raises(errors.SpecRejectedError, match=r"TakeOver .*docs/howto/rebuild-a-cluster\.md") as refused:
            new.play_driver(2)
        new.until("it is Stalled", lambda: stalled(new)[2] == "True")
        assert refused.value.reason == stalled(new)[0] == "StateOwnedByAnother"
        assert refused.value.message in stalled(new)[1]
        assert new.events()["StateOwnedByAnother"] == 1
        assert epochs.read_owner(new.store) == owner

        storage, (added,) = resources.section(new.spec, "storage"), json.loads(patch)
        assert (added["op"], added["path"]) == ("add", "/spec/storage/ownership")
        new.apply(storage={**storage, "ownership": added["value"]})
        driver = new.play_driver(3)
        new.until_phase("Running")
        assert driver.config.restore.snapshot is None  # From the newest state.
        assert resources.number(new.status(), "lastCheckpoint", "id") > kept
        after = epochs.read_owner(new.store)
        assert after.owner_id == new.server.get(NAMESPACE, "ssj/flights")["metadata"]["uid"]  # type: ignore[index,call-overload]
        assert after.cluster_id != owner.cluster_id

        new.apply(storage=storage)  # The patch is taken back.
        generation = resources.number(new.server.get(NAMESPACE, "ssj/flights"), "metadata", "generation")
        new.until("it is seen", lambda: resources.number(new.status(), "observedGeneration") == generation)
        assert (resources.number(new.status(), "epoch"), stalled(new)[2]) == (3, "False")
