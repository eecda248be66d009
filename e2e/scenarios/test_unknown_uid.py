"""A new version without a place for the state is refused, and nothing is lost whichever way out is taken."""

from __future__ import annotations

from testbed import claims, job, totals


def test_unknown_uid_waits_for_a_person(subject: job.Job) -> None:
    subject.apply(upgrade={"mode": "Cold"})
    subject.wait_batch(2)
    subject.wait_checkpoint()

    subject.change(job={"file": f"{job.FOLDER}/renamed.py"})

    seen = subject.wait_stalled("NonRestoredState")
    claims.says(seen, "operator 'a' of query 'numbers'", "allowNonRestoredState")
    claims.stays_calm(subject, epochs_max=2)
    claims.is_exact(subject)
    before, batch = subject.files(), totals.committed(subject.output)
    assert len(subject.savepoints()) == 1

    subject.change(job={"file": job.FILE})

    subject.wait_running(epoch=3)
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    claims.keeps(subject, {key: etag for key, etag in before.items() if key.startswith("savepoints/")})
