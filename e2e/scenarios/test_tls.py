"""A job whose API speaks TLS alone: seen, handed over, suspended; a certificate that cannot be verified is named."""

from __future__ import annotations

from pathlib import Path

import certificates
from demo import kubectl
from testbed import claims, job, waiting

CERTIFICATE = "totals-tls"
SPEC = {"driver": {"tls": {"secretRef": {"name": CERTIFICATE}}}, "health": {"unavailableAfter": "30s"}}


def give(subject: job.Job, issued: certificates.Issued) -> None:
    """Write the Secret as cert-manager does."""
    names = {"tls.crt", "tls.key", "ca.crt"}
    data = {name: (issued.folder / name).read_text("utf-8") for name in sorted(names)}
    document = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": CERTIFICATE}}
    subject.kube.apply([{**document, "stringData": data}])


def answer(subject: job.Job, url: str) -> str:
    """Ask the driver for its status from inside its own pod, believing any certificate; return the code or the error."""
    ask = (
        "import ssl, urllib.request as r, urllib.error as e\n"
        "try:\n"
        f"    print(r.urlopen({url!r}, context=ssl._create_unverified_context(), timeout=10).status)\n"
        "except e.HTTPError as error: print(error.code)\n"
        "except OSError as error: print(type(error).__name__)\n"
    )
    return subject.kube.call("exec", subject.driver_pod(), "--", "python3", "-c", ask).strip()


def test_job_with_tls_is_seen_handed_over_and_suspended(subject: job.Job, tmp_path: Path) -> None:
    name = f"{job.NAME}-driver.{subject.namespace}.svc"
    give(subject, certificates.issue(tmp_path / "first", name=name))
    subject.apply(**SPEC)
    subject.wait_batch(2)
    subject.wait_checkpoint()

    assert subject.see().condition("Ready")["status"] == "True"
    assert answer(subject, "https://127.0.0.1:8090/v1/status") == "401", "the token is asked for"
    assert answer(subject, "http://127.0.0.1:8090/v1/status") not in {"200", "401"}, "nothing but TLS is spoken"

    subject.change(sparkConf={"spark.ui.showConsoleProgress": "false"})

    seen = waiting.until(subject.see, lambda seen: kubectl.text(seen.status, "upgrade", "state") == "Stable", "Stable")
    assert (seen.phase, seen.epoch, subject.driver_pod()) == ("Running", 2, f"{job.NAME}-standby-1")
    claims.is_exact(subject)

    subject.change(suspend=True)

    waiting.until(subject.see, lambda seen: seen.reason == "Suspended", "Suspended, and no longer on its way there")
    assert len(subject.savepoints()) == 2
    claims.is_exact(subject)


def test_certificate_of_another_name_is_told_and_its_renewal_heals(subject: job.Job, tmp_path: Path) -> None:
    give(subject, certificates.issue(tmp_path / "wrong", name="somebody-else.example"))
    subject.apply(**SPEC)

    seen = waiting.until(subject.see, lambda seen: seen.reason == "DriverNotTrusted", "DriverNotTrusted")
    assert CERTIFICATE in seen.message + str(seen.condition("Ready").get("message"))
    subject.wait_batch(2)  # The job itself goes on.

    give(subject, certificates.issue(tmp_path / "right", name=f"{job.NAME}-driver.{subject.namespace}.svc"))

    waiting.until(subject.see, lambda seen: seen.condition("Ready").get("status") == "True", "Ready", timeout_s=300)
    assert subject.see().epoch == 1
    claims.is_exact(subject)
