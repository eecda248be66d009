"""What is verified of a release, what is missing, and what contradicts it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from release import signing, verify
from release.verify import Findings, Signer

IMAGE = "statefulspark-operator-image-0.2.0.tar"
LOCK = """kopf==1.44.6 \\
    --hash=sha256:00
PyYAML==6.0.3 ; python_full_version >= '3.11' and sys_platform == 'linux' \\
    --hash=sha256:01
pywin32==311 ; sys_platform == 'win32' \\
    --hash=sha256:02
"""
LOCKS = {"statefulspark-image-": "pyspark==4.2.0 \\\n", "statefulspark-operator-image-": LOCK}


def a_bill(**parts: str) -> str:
    components = [
        {"name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"} for name, version in parts.items()
    ]
    return json.dumps({"bomFormat": "CycloneDX", "components": components})


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Return a complete release, without signatures."""
    contents = {IMAGE: "layers", f"{IMAGE}.cdx.json": a_bill(kopf="1.44.6", pyyaml="6.0.3"), "op-0.2.0.tgz": "chart"}
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    sums = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in contents.items()]
    (tmp_path / "SHA256SUMS").write_text("".join(sums))
    return tmp_path


class Programs:
    """Answers to what is called, and what was called."""

    def __init__(self, said: str | None = None) -> None:
        self.said = said
        self.calls: list[list[str]] = []

    def __call__(self, command: list[str]) -> str | None:
        self.calls.append(command)
        return self.said


def test_whole_files_are_verified(dist: Path) -> None:
    assert verify.files(dist) == Findings(verified=("3 files are those that SHA256SUMS lists.",))


def test_a_file_that_changed_is_gone_or_was_added_is_named(dist: Path) -> None:
    (dist / IMAGE).write_text("other layers")
    (dist / "op-0.2.0.tgz").rename(dist / "evil.tgz")

    assert verify.files(dist).wrong == (
        "op-0.2.0.tgz is listed in SHA256SUMS and not there.",
        "evil.tgz is there and not listed in SHA256SUMS.",
        f"{IMAGE} is not the file that SHA256SUMS lists.",
    )


@pytest.mark.parametrize("sums", [None, "", "no checksum\n"], ids=["absent", "empty", "unreadable"])
def test_without_checksums_nothing_is_verified(tmp_path: Path, sums: str | None) -> None:
    if sums is not None:
        (tmp_path / "SHA256SUMS").write_text(sums)

    findings = verify.files(tmp_path)

    assert (findings.verified, len(findings.wrong)) == ((), 1)


def test_the_signature_of_the_checksums_is_not_among_them(dist: Path) -> None:
    (dist / signing.BUNDLE).write_text("{}")

    assert verify.files(dist).wrong == ()


def test_a_bill_that_names_all_that_is_locked_is_complete(dist: Path) -> None:
    assert verify.bills(dist, LOCKS) == Findings(verified=(f"{IMAGE}.cdx.json names 2 parts.",))


@pytest.mark.parametrize(
    ("bill", "said"),
    [
        (None, "is not there"),
        ("{", "is no bill of materials"),
        (a_bill(kopf="1.44.6"), "lacks what the lock file installs: pyyaml 6.0.3."),
        (a_bill(kopf="1.44.5", PyYAML="6.0.3"), "lacks what the lock file installs: kopf 1.44.6."),
        (a_bill(), "lacks what the lock file installs: kopf 1.44.6, pyyaml 6.0.3."),
    ],
    ids=["absent", "no JSON", "a part less", "another version", "empty"],
)
def test_a_bill_that_is_not_complete_is_named(dist: Path, bill: str | None, said: str) -> None:
    path = dist / f"{IMAGE}.cdx.json"
    path.unlink() if bill is None else path.write_text(bill)

    (sentence,) = verify.bills(dist, LOCKS).wrong

    assert said in sentence
    assert path.name in sentence


def test_a_folder_without_anything_shipped_is_no_release(tmp_path: Path) -> None:
    assert len(verify.bills(tmp_path, LOCKS).wrong) == 1


def test_who_made_it_is_missing_when_nobody_signed_and_nobody_asks(dist: Path) -> None:
    findings = verify.signatures(dist, Signer(), programs := Programs())

    assert (findings.verified, findings.wrong, programs.calls) == ((), (), [])
    assert ["SHA256SUMS.sigstore.json is not there" in findings.missing[0], "prov is not" in findings.missing[1]] == [
        True
    ] * 2


def test_a_signature_of_nobody_in_particular_is_missing(dist: Path) -> None:
    (dist / signing.BUNDLE).write_text("{}")
    (dist / "op-0.2.0.tgz.prov").write_text("")

    findings = verify.signatures(dist, Signer(), programs := Programs())

    assert (findings.verified, findings.wrong, programs.calls) == ((), (), [])
    assert ["KEY, or IDENTITY and ISSUER" in findings.missing[0], "KEYRING" in findings.missing[1]] == [True, True]


@pytest.mark.parametrize("signer", [Signer(key="cosign.pub"), Signer(identity="me@x", issuer="https://x")])
def test_a_release_that_has_to_be_signed_and_is_not_is_wrong(dist: Path, signer: Signer) -> None:
    findings = verify.signatures(dist, signer, Programs())

    assert findings.wrong == ("SHA256SUMS.sigstore.json is not there: nothing says who made the release.",)


@pytest.mark.parametrize(
    ("signer", "asked"),
    [
        (Signer(key="cosign.pub"), ["--key", "cosign.pub"]),
        (
            Signer(identity="me@x", issuer="https://x"),
            ["--certificate-identity", "me@x", "--certificate-oidc-issuer", "https://x"],
        ),
    ],
    ids=["key", "identity"],
)
@pytest.mark.parametrize("said", [None, "no matching signatures"], ids=["signed", "by another"])
def test_cosign_is_asked_about_who_has_to_have_signed(
    dist: Path, signer: Signer, asked: list[str], said: str | None
) -> None:
    (dist / signing.BUNDLE).write_text("{}")

    findings = verify.signatures(dist, signer, programs := Programs(said))

    bundle, sums = str(dist / signing.BUNDLE), str(dist / "SHA256SUMS")
    assert programs.calls == [["cosign", "verify-blob", "--bundle", bundle, *asked, sums]]
    assert (len(findings.verified), len(findings.wrong)) == ((1, 0) if said is None else (0, 1))


@pytest.mark.parametrize("said", [None, "unknown key"], ids=["signed", "by another"])
def test_helm_is_asked_about_the_chart(dist: Path, said: str | None) -> None:
    (dist / "op-0.2.0.tgz.prov").write_text("")

    findings = verify.signatures(dist, Signer(keyring="keys.gpg"), programs := Programs(said))

    assert [call[1:] for call in programs.calls] == [["verify", str(dist / "op-0.2.0.tgz"), "--keyring", "keys.gpg"]]
    assert (len(findings.verified), len(findings.wrong)) == ((1, 0) if said is None else (0, 1))
