"""Licences of what is shipped, from bills of materials as syft writes them."""

import json
from pathlib import Path

from release import licences
from release.licences import Component

DOCUMENT = {
    "bomFormat": "CycloneDX",
    "components": [
        {
            "type": "library",
            "name": "kopf",
            "version": "1.44.6",
            "purl": "pkg:pypi/kopf@1.44.6",
            "licenses": [{"license": {"id": "MIT"}}],
        },
        {
            "type": "library",
            "name": "libc6",
            "version": "2.36",
            "purl": "pkg:deb/debian/libc6@2.36?arch=amd64",
            "licenses": [{"license": {"name": "LGPL-2.1"}}, {"license": {"id": "GPL-2.0-only"}}],
        },
        {"type": "library", "name": "sts", "version": "2.35.4", "purl": "pkg:maven/software.amazon.awssdk/sts@2.35.4"},
        {
            "type": "library",
            "name": "numpy",
            "version": "2.3",
            "purl": "pkg:pypi/numpy@2.3",
            "licenses": [{"expression": "BSD-3-Clause AND MIT"}],
        },
        {"type": "file", "name": "/opt/entrypoint.sh"},
    ],
}
PARTS = {
    Component("kopf", "1.44.6", "python", ("MIT",)),
    Component("libc6", "2.36", "debian", ("GPL-2.0-only", "LGPL-2.1")),
    Component("sts", "2.35.4", "java", ()),
    Component("numpy", "2.3", "python", ("BSD-3-Clause AND MIT",)),
}


def test_a_bill_of_materials_is_read(tmp_path: Path) -> None:
    bill = tmp_path / "image.cdx.json"
    bill.write_text(json.dumps(DOCUMENT))

    assert licences.read(bill) == PARTS


def test_a_part_without_a_licence_is_told_unless_somebody_looked_it_up() -> None:
    assert licences.unstated(PARTS, {}) == ["sts"]
    assert licences.unstated(PARTS, {"sts": "Apache-2.0"}) == []


def test_the_table_is_sorted_and_complete() -> None:
    lines = licences.table(PARTS, {"sts": "Apache-2.0"}).splitlines()

    assert [line.split(" | ")[0] for line in lines[2:]] == ["| kopf", "| libc6", "| numpy", "| sts"]
    assert lines[-1] == "| sts | 2.35.4 | java | Apache-2.0 |"
