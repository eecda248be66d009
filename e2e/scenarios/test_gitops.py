"""Commits, and nothing else: Argo CD's engine applies them, and its health tells what became of each."""

from __future__ import annotations

from pathlib import Path

from testbed import claims, gitops, job, waiting

RESOURCE = f"StatefulSparkJob/{job.NAME}"


def test_commits_upgrade_a_job_and_a_bad_one_is_reported_while_the_old_version_runs(
    subject: job.Job, tmp_path: Path
) -> None:
    repository = gitops.Repository(tmp_path / "repository")
    first = repository.commit(subject.document(), "Run the totals")
    kubeconfig = subject.bed.connection.kubeconfig
    # An application with the name of the job is the worst case: the label by which it knows its own is that of our pods.
    with gitops.Loop(repository, kubeconfig=kubeconfig, namespace=subject.namespace, application=job.NAME) as loop:
        loop.wait_health(RESOURCE, "Healthy", first)
        subject.wait_checkpoint()

        changed = subject.document(sparkConf={"spark.ui.showConsoleProgress": "false"})
        second = repository.commit(changed, "Show no progress")
        loop.wait_health(RESOURCE, "Healthy", second)

        assert "Progressing" in [seen.status for seen in loop.healths(RESOURCE) if seen.revision == second]
        assert (subject.see().epoch, len(subject.savepoints())) == (2, 1)
        pod, before = subject.driver_pod(), subject.committed()

        bad = repository.commit(subject.document(job={"file": f"{job.FOLDER}/raises.py"}), "Break it")
        told = loop.wait_health(RESOURCE, "Degraded", bad)

        assert "raises.py line 7" in told.message
        assert waiting.while_(lambda: (subject.see().phase, subject.driver_pod()), seconds=claims.CALM_S) == [
            ("Running", pod)
        ]
        assert subject.committed() > before

        third = repository.revert()
        loop.wait_health(RESOURCE, "Healthy", third)
        subject.wait_batch(subject.committed() + 3)

    claims.is_exact(subject)
    assert (subject.see().epoch, subject.driver_pod()) == (2, pod)
