"""Code that is not in the image: an edit is an upgrade with exact sums, and what cannot run harms no running job."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest
from demo import kubectl
from testbed import claims, job, waiting

RULES = "def added(total, rows):\n    return total + sum(row.value for row in rows)\n"
IMPORTED = "import rules\nimport statefulspark as ss"
UPGRADED = ("FirstCheckpoint", "Stable")


def modules(rules: str = RULES) -> dict[str, str]:
    """The job in two modules, of which workers import one."""
    text = job.FILES.joinpath("totals.py").read_text("utf-8")
    text = text.replace("import statefulspark as ss", IMPORTED)
    return {
        "totals.py": text.replace("total + sum(row.value for row in rows)", "rules.added(total, rows)"),
        "rules.py": rules,
    }


def write(subject: job.Job, rules: str = RULES) -> None:
    """Write the ConfigMap, as a person does."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": modules(rules)}
    subject.kube.apply([document])


def upload(subject: job.Job, rules: str = RULES) -> str:
    """Upload the job as a zip, and return its checksum."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in modules(rules).items():
            archive.writestr(f"app/{name}", text)
    subject.bed.connection.open_store(f"{subject.namespace}/code").write("totals.zip", target.getvalue())
    return hashlib.sha256(target.getvalue()).hexdigest()


def ready(seen: job.Seen) -> tuple[object, object]:
    condition = seen.condition("Ready")
    return condition.get("status"), condition.get("reason")


def wait_upgraded(subject: job.Job, epoch: int) -> None:
    """Wait until a revision works that runs with an epoch."""
    waiting.until(
        subject.see,
        lambda seen: seen.epoch == epoch and kubectl.text(seen.status, "upgrade", "state") in UPGRADED,
        f"upgraded with epoch {epoch}",
    )


@pytest.mark.parametrize("parts", [{}, {"executor": {"instances": 1, "heap": "512Mi"}}], ids=["driver", "executor"])
def test_code_in_a_config_map(subject: job.Job, parts: dict[str, object]) -> None:
    write(subject)
    source = {"configMap": {"name": "code"}}
    subject.apply(job={"file": "totals.py", "source": source}, **parts)
    subject.wait_batch(3)
    subject.wait_checkpoint()

    write(subject, RULES + "# edited\n")

    wait_upgraded(subject, 2)
    subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)
    assert len(subject.savepoints()) == 1


def test_code_that_is_bad_or_gone(subject: job.Job) -> None:
    write(subject)
    subject.apply(job={"file": "totals.py", "source": {"configMap": {"name": "code"}}})
    subject.wait_batch(2)
    subject.wait_checkpoint()

    write(subject, "def added(total, rows)\n")
    seen = subject.wait_stalled("UpgradeBlocked")
    claims.says(seen, "rules.py", "SyntaxError")
    subject.kube.call("delete", "configmap", "code")
    waiting.until(subject.see, lambda seen: ready(seen) == ("False", "CodeMissing"), "CodeMissing")
    batch = subject.committed()
    subject.kill_driver_process()
    subject.wait_batch(batch + 3)  # with the code that is kept

    write(subject, RULES + "# corrected\n")
    wait_upgraded(subject, 3)
    subject.wait_batch(subject.committed() + 2)
    claims.is_exact(subject)


def test_code_in_a_zip_on_storage(subject: job.Job) -> None:
    checksum = upload(subject)
    uri = subject.bed.connection.uri(f"{subject.namespace}/code/totals.zip")
    subject.apply(job={"file": "app/totals.py", "source": {"s3": {"uri": uri, "sha256": checksum}}})
    subject.wait_batch(3)
    subject.wait_checkpoint()

    subject.change(job={"source": {"s3": {"sha256": "ab" * 32}}})
    waiting.until(subject.see, lambda seen: ready(seen) == ("False", "CodeChecksumMismatch"), "CodeChecksumMismatch")
    assert subject.see().epoch == 1
    changed = upload(subject, RULES + "# edited\n")
    subject.change(job={"source": {"s3": {"sha256": changed}}})
    wait_upgraded(subject, 2)

    subject.bed.connection.open_store(f"{subject.namespace}/code").delete_many(["totals.zip"])
    batch = subject.committed()
    subject.kill_driver_process()
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    assert {key.split("/")[1] for key in subject.files() if key.startswith("code/")} == {checksum, changed}
