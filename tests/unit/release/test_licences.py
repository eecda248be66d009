"""Licences of what is shipped, from bills of materials as syft writes them."""

import importlib.metadata
import json
from pathlib import Path

from release import licences
from release.licences import Component, LookedUp

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
    Component("sts", "2.35.4", "java", (), "software.amazon.awssdk"),
    Component("numpy", "2.3", "python", ("BSD-3-Clause AND MIT",)),
}
STS = LookedUp({"sts": "Apache-2.0"}, {})


def test_a_bill_of_materials_is_read(tmp_path: Path) -> None:
    bill = tmp_path / "image.cdx.json"
    bill.write_text(json.dumps(DOCUMENT))

    assert licences.read(bill) == PARTS


def test_a_part_without_a_licence_is_told_unless_somebody_looked_it_up() -> None:
    assert licences.unstated(PARTS, LookedUp({}, {})) == ["sts"]
    assert licences.unstated(PARTS, STS) == []


def test_the_table_is_sorted_and_complete() -> None:
    lines = licences.table(PARTS, STS).splitlines()

    assert [line.split(" | ")[0] for line in lines[2:]] == ["| kopf", "| libc6", "| numpy", "| sts"]
    assert lines[-1] == "| sts | 2.35.4 | java | Apache-2.0 |"


def test_a_group_is_nearer_than_a_name_and_covers_what_is_longer_by_a_dot() -> None:
    looked_up = LookedUp({"core": "MIT"}, {"org.apache": "Apache-2.0", "org.apache.odd": "ISC"})

    def of(group: str, name: str = "core") -> str | None:
        return looked_up.of(Component(name, "1", "java", (), group))

    assert (of("org.apache.hadoop"), of("org.apache"), of("org.apache.odd")) == ("Apache-2.0", "Apache-2.0", "ISC")
    assert (of("org.apaches"), of("com.other"), of("com.other", "other")) == ("MIT", "MIT", None)


def test_what_spark_bundles_is_read_from_its_own_licence() -> None:
    text = importlib.metadata.distribution("pyspark").read_text("licenses/LICENSE")
    assert text is not None

    bundled = licences.bundled_by_spark(text)

    seen = {
        name: bundled[name] for name in ("rocksdbjni", "xz", "zstd-jni", "kryo-shaded", "slf4j-api", "hk2-api", "icu4j")
    }
    assert seen == {
        "rocksdbjni": "Apache-2.0",
        "xz": "0BSD",
        "zstd-jni": "BSD-2-Clause",
        "kryo-shaded": "BSD-3-Clause",
        "slf4j-api": "MIT",
        "hk2-api": "EPL-2.0",
        "icu4j": "Unicode-3.0",
    }
    assert (bundled["algebra_2.13"], bundled["jakarta.servlet-api"], bundled["transaction-api"]) == (
        "MIT",
        "EPL-2.0",
        "CDDL-1.0",
    )
