"""Verify a release: that its files are whole and listed, that its bills of materials are complete, and who made it."""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from release import artifacts, licences, signing

_EXAMPLES = """examples:
  What anybody can verify:
    make verify-release

  Who made it, by the identity that signed, or by a key:
    make verify-release DIST=dist IDENTITY=you@example.org ISSUER=https://github.com/login/oauth
    make verify-release DIST=dist KEY=cosign.pub

  The chart, too, by the keys in a keyring of gpg:
    make verify-release DIST=dist KEYRING=pubring.gpg
"""
_SUM = re.compile(r"^([0-9a-f]{64})  (\S+)$")
_LOCKED = re.compile(r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]+))?", re.MULTILINE)
_IN_IMAGES = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "python_full_version": "3.11.2"}
_LOCKS = {"statefulspark-image-": "job.txt", "statefulspark-operator-image-": "operator.txt"}

Call = Callable[[list[str]], str | None]
"""Runs a program; returns None if it agrees, or what it says against it."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Who has to have signed.

    Attributes:
        key: Public key of cosign, as a file or what else cosign takes; empty if an identity signed.
        identity: Who signed, as their certificate says; empty if a key did.
        issuer: Who vouches for that identity.
        keyring: File of gpg with the keys that may have signed the chart; empty if it is not to be verified.
    """

    key: str = ""
    identity: str = ""
    issuer: str = ""
    keyring: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of a verification.

    Attributes:
        verified: What was proven, a sentence each.
        missing: What nobody proved, a sentence each: it is absent, or nobody said by whom it has to be.
        wrong: What contradicts the release, a sentence each.
    """

    verified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def and_those(self, others: Findings) -> Findings:
        """Return both."""
        return Findings(self.verified + others.verified, self.missing + others.missing, self.wrong + others.wrong)


def main() -> int:
    """Verify a folder and tell.

    Returns:
        0 if nothing is wrong, and 1 otherwise. What is missing is named, and is no failure.
    """
    parser = argparse.ArgumentParser(
        "release.verify", description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=artifacts.ROOT / "dist", help="default: dist")
    parser.add_argument("--key", default="", help="public key of cosign that has to have signed")
    parser.add_argument("--identity", default="", help="identity that has to have signed")
    parser.add_argument("--issuer", default="", help="who vouches for the identity")
    parser.add_argument("--keyring", default="", help="keys of gpg that may have signed the chart")
    options = parser.parse_args()
    if bool(options.identity) != bool(options.issuer) or (options.key and options.identity):
        parser.error("a signer is a --key, or an --identity with its --issuer")
    signer = Signer(options.key, options.identity, options.issuer, options.keyring)
    locks = {prefix: (artifacts.ROOT / "requirements" / lock).read_text() for prefix, lock in _LOCKS.items()}
    findings = (
        files(options.folder)
        .and_those(bills(options.folder, locks))
        .and_those(signatures(options.folder, signer, _called))
    )
    print("".join(f"ok       {line}\n" for line in findings.verified), end="")
    print("".join(f"missing  {line}\n" for line in findings.missing), end="")
    print("".join(f"WRONG    {line}\n" for line in findings.wrong), end="", flush=True)
    return 1 if findings.wrong else 0


def files(folder: Path) -> Findings:
    """Compare every file of a folder with SHA256SUMS; the signature of that one is listed nowhere."""
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        return Findings(wrong=(f"{sums} is not there, so nothing says which files belong to the release.",))
    stated = {match[2]: match[1] for line in sums.read_text().splitlines() if (match := _SUM.match(line))}
    present = {path.name for path in folder.iterdir() if path.name not in {sums.name, signing.BUNDLE}}
    wrong = [f"{name} is listed in SHA256SUMS and not there." for name in sorted(stated.keys() - present)]
    wrong += [f"{name} is there and not listed in SHA256SUMS." for name in sorted(present - stated.keys())]
    for name in sorted(stated.keys() & present):
        if _digest(folder / name) != stated[name]:
            wrong.append(f"{name} is not the file that SHA256SUMS lists.")
    if wrong or not stated:
        return Findings(wrong=tuple(wrong) or ("SHA256SUMS lists nothing.",))
    return Findings(verified=(f"{len(stated)} files are those that SHA256SUMS lists.",))


def bills(folder: Path, locks: Mapping[str, str]) -> Findings:
    """See that each wheel and image has a bill of materials, and that those of images name what was locked.

    Args:
        folder: Of the release.
        locks: Text of the lock file by the beginning of the image's name.
    """
    shipped = sorted({*folder.glob("*.whl"), *folder.glob("*.tar")})
    wrong = () if shipped else (f"{folder} holds no wheel and no image.",)
    findings = Findings(wrong=wrong)
    for path in shipped:
        findings = findings.and_those(_bill(path, locks))
    return findings


def locked(lock: str) -> dict[str, str]:
    """Return the version by normal name of each distribution that a lock file installs in the images."""
    return {
        canonicalize_name(name): version
        for name, version, marker in _LOCKED.findall(lock)
        if not marker.strip() or Marker(marker.strip()).evaluate({**_IN_IMAGES, "python_version": "3.11"})
    }


def signatures(folder: Path, signer: Signer, call: Call) -> Findings:
    """Verify the signature of SHA256SUMS and that of the chart, as far as it is said who has to have made them."""
    findings = _cosign(folder, signer, call)
    charts = sorted(folder.glob("*.tgz"))
    for chart in charts:
        findings = findings.and_those(_chart(chart, signer.keyring, call))
    return findings


def _cosign(folder: Path, signer: Signer, call: Call) -> Findings:
    bundle, is_told = folder / signing.BUNDLE, signer.key or signer.identity
    if not bundle.is_file():
        sentence = f"{signing.BUNDLE} is not there: nothing says who made the release."
        return Findings(wrong=(sentence,)) if is_told else Findings(missing=(sentence,))
    if not is_told:
        return Findings(
            missing=(f"{signing.BUNDLE} was not verified: say who has to have signed (KEY, or IDENTITY and ISSUER).",)
        )
    by = ["--key", signer.key]
    if not signer.key:
        by = ["--certificate-identity", signer.identity, "--certificate-oidc-issuer", signer.issuer]
    said = call(["cosign", "verify-blob", "--bundle", str(bundle), *by, str(folder / "SHA256SUMS")])
    if said is not None:
        return Findings(wrong=(f"The signature of SHA256SUMS is not of {signer.key or signer.identity}: {said}",))
    return Findings(verified=(f"SHA256SUMS was signed by {signer.key or signer.identity}.",))


def _chart(chart: Path, keyring: str, call: Call) -> Findings:
    provenance = chart.with_name(f"{chart.name}.prov")
    if not provenance.is_file():
        sentence = f"{provenance.name} is not there: `helm install --verify` does not take this chart."
        return Findings(wrong=(sentence,)) if keyring else Findings(missing=(sentence,))
    if not keyring:
        return Findings(missing=(f"{provenance.name} was not verified: say by whose keys (KEYRING).",))
    said = call([str(artifacts.HELM), "verify", str(chart), "--keyring", keyring])
    if said is not None:
        return Findings(wrong=(f"{provenance.name} is not signed by a key of {keyring}: {said}",))
    return Findings(verified=(f"{chart.name} was signed by a key of {keyring}.",))


def _bill(path: Path, locks: Mapping[str, str]) -> Findings:
    bill = path.with_name(f"{path.name}.cdx.json")
    if not bill.is_file():
        return Findings(wrong=(f"{bill.name} is not there: nothing says what is in {path.name}.",))
    try:
        parts = licences.read(bill)
    except (ValueError, KeyError) as error:
        return Findings(wrong=(f"{bill.name} is no bill of materials: {error}",))
    listed = {(canonicalize_name(part.name), part.version) for part in parts if part.kind == "python"}
    needed = [lock for prefix, lock in locks.items() if re.match(rf"{prefix}\d", path.name)]
    absent = sorted(_names({*locked(lock).items()} - listed for lock in needed))
    if absent:
        return Findings(wrong=(f"{bill.name} lacks what the lock file installs: {', '.join(absent)}.",))
    if path.suffix == ".tar" and not parts:
        return Findings(wrong=(f"{bill.name} names no part, and an image has some.",))
    return Findings(verified=(f"{bill.name} names {len(parts)} parts.",))


def _names(pairs: Iterable[set[tuple[str, str]]]) -> set[str]:
    return {f"{name} {version}" for each in pairs for name, version in each}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _called(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed here."
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (
        None if done.returncode == 0 else (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}")
    )


if __name__ == "__main__":
    sys.exit(main())
