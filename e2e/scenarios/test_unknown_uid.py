"""A new version without a place for the state is refused, and nothing is lost whichever way out is taken."""

from __future__ import annotations

from testbed import claims, job, waiting


def test_unknown_uid_goes_back_and_waits_for_a_person(subject: job.Job) -> None:
    subject.apply(upgrade={"strategy": "Cold"})
    subject.wait_batch(2)
    subject.wait_checkpoint()

    subject.change(job={"file": f"{job.FOLDER}/renamed.py"})

    subject.wait_stalled("RolledBack")
    seen = subject.wait_running(epoch=3)
    claims.says(seen, "operator 'a' of query 'numbers'", "restore.dropState", "Change the spec to try again")
    batch = subject.wait_batch(subject.committed() + 3)
    claims.is_exact(subject)
    before = subject.files()
    assert len(subject.savepoints()) == 1

    subject.change(job={"file": job.FILE})

    waiting.until(subject.see, lambda seen: not seen.stalled, "not stalled")
    subject.wait_batch(batch + 3)
    claims.is_exact(subject)
    claims.keeps(subject, {key: etag for key, etag in before.items() if key.startswith("savepoints/")})
    assert subject.see().epoch == 3
