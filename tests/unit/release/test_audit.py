"""The audit never says that nothing is known of a part about which nobody was asked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from release import audit
from release.audit import Outcome, Scan

PURLS = [
    "pkg:pypi/kopf@1.44.6",
    "pkg:deb/debian/libc6@2.36?arch=amd64",
    "pkg:maven/org.apache.avro/avro@1.12.0",
    "pkg:maven/org.apache.avro/unknown?type=jar",
    "pkg:generic/python@3.11.2",
]
PARTS = Counter({"PyPI": 1, "Debian": 1, "Maven": 1, "parts without a version": 1, "generic": 1})


def a_scan(code: int = 0, *, without: str = "", ids: tuple[str, ...] = ()) -> Scan:
    """Return a scan of the parts in PURLS, as osv-scanner reports one."""
    scanned = [("PyPI", "kopf"), ("Debian:12", "libc6"), ("Maven", "org.apache.avro:avro")]
    groups = [{"ids": list(ids), "max_severity": "7.5"}] if ids else []
    packages = [
        {"package": {"ecosystem": ecosystem, "name": name, "version": "1"}, "groups": groups}
        for ecosystem, name in scanned
        if ecosystem != without
    ]
    return Scan(code, json.dumps({"results": [{"packages": packages}]}), "")


def test_parts_are_counted_once_by_ecosystem_in_all_bills() -> None:
    bill = {"components": [*({"purl": purl} for purl in PURLS), {"type": "file", "name": "/opt/entrypoint.sh"}]}

    assert audit.listed([bill, bill]) == PARTS


@pytest.mark.parametrize(
    "parts", [Counter(), Counter({"generic": 1})], ids=["no bill", "none that anybody keeps account of"]
)
def test_without_parts_nobody_is_asked(parts: Counter[str]) -> None:
    verdict = audit.unanswerable(parts, None)

    assert verdict is not None
    assert verdict.outcome is Outcome.NOT_ASKED


def test_a_copy_without_an_ecosystem_answers_nothing_about_it(tmp_path: Path) -> None:
    for name in ("PyPI", "Maven"):
        (tmp_path / "osv-scanner" / name).mkdir(parents=True)
        (tmp_path / "osv-scanner" / name / "all.zip").touch()

    verdict = audit.unanswerable(PARTS, tmp_path)

    assert verdict is not None
    assert (verdict.outcome, "nothing about Debian" in verdict.lines[0]) == (Outcome.NOT_ASKED, True)


def test_osv_dev_and_a_complete_copy_can_be_asked(tmp_path: Path) -> None:
    for name in ("PyPI", "Maven", "Debian"):
        (tmp_path / "osv-scanner" / name).mkdir(parents=True)
        (tmp_path / "osv-scanner" / name / "all.zip").touch()

    assert [audit.unanswerable(PARTS, database) for database in (None, tmp_path)] == [None, None]


@pytest.mark.parametrize("code", [-1, 2, 127, 128, 129])
def test_a_scan_that_failed_asked_nobody(code: int) -> None:
    verdict = audit.judged(PARTS, Scan(code, "", "dial tcp: no such host"))

    assert verdict.outcome is Outcome.NOT_ASKED
    assert f"ended with {code}: dial tcp: no such host" in verdict.lines[0]


def test_a_scan_that_passed_over_an_ecosystem_asked_nobody_about_it() -> None:
    verdict = audit.judged(PARTS, a_scan(without="Debian:12"))

    assert verdict.outcome is Outcome.NOT_ASKED
    assert "passed over all parts of Debian" in verdict.lines[0]


def test_that_nothing_is_known_is_said_of_the_parts_that_were_asked_about() -> None:
    assert audit.judged(PARTS, a_scan()) == audit.Verdict(
        Outcome.NOTHING_KNOWN,
        (
            "Nobody was asked about 1 of generic.",
            "Nobody was asked about 1 of parts without a version.",
            "No known vulnerability in these parts: 1 of Debian, 1 of Maven, 1 of PyPI.",
        ),
    )


def test_each_vulnerability_is_named_with_its_part_and_its_other_names() -> None:
    verdict = audit.judged(PARTS, a_scan(1, ids=("GHSA-1", "CVE-1")))

    assert verdict.outcome is Outcome.KNOWN
    assert "PyPI kopf 1: GHSA-1, CVE-1 (severity 7.5)" in verdict.lines
    assert verdict.lines[-1].startswith("3 known vulnerabilities")
