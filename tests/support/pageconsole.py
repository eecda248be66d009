"""The blocks for a console in the pages of the documentation, for the tests that run them.

A line of such a block begins with `$ ` and goes on in the lines below a trailing backslash; every other line is what is
printed. A test runs the block that it asks for by page and number, but for the commands that no test can run: `OUTSIDE` says
of each why, or where the same is done. `tests/architecture/test_page_console.py` fails for a command that nobody runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pagecode
import processes

OUTSIDE: Mapping[str, str] = {
    "aws": "Amazon's command is not one of the tools of the tests; tests/contract/storage makes the same requests",
    "docker": "tests have no daemon of it; e2e/images builds from the same Dockerfiles, and what they make runs there",
    "cosign": "nobody's identity is on the machine of a test; tests/unit/release/test_verify.py has what it is asked",
    "gh": "there is no account at GitHub",
    "sha256sum --check": "tests/unit/release/test_verify.py compares the same files",
    "source": "a person's shell reads what it prints; tests/unit/cli/test_main.py has the scripts for each shell",
    "statefulspark completion": "a machine need not have that shell; tests/unit/cli/test_main.py has the script",
    "kubeconform": "the validator of somebody else; tests/unit/release/test_schemas.py validates with the same schemas",
    "skopeo": "there is no registry; e2e/images makes the archives with it",
    "echo one": "the content of the requests below it",
    "eksctl": "there is no Amazon account",
    "gcloud": "there is no Google account",
    "mc": "MinIO's command is not one of the tools of the tests",
    "radosgw-admin": "there is no Ceph cluster",
    "zip": "a machine need not have it; tests/unit/test_jobcode.py reads such archives",
    "xdg-open": "opens a browser; e2e/page/test_page.py has one without a screen",
    "make": "builds, and runs every test",
    "pip install": "tests/spark/release/test_installed_wheel.py installs the wheel into an environment of its own",
    "python3 -m": "as above",
    ". ~/try/bin/activate": "as above",
    "kill -9": "ends by name; tests/spark/driver/test_projects.py kills the process that it has started",
    "kubectl port-forward": "needs a node; the drivers of e2e/ are reached like this",
    "pytest tests/simulation": "is a part of the suite",
    "SIMULATION_SEEDS=20000 pytest": "takes an hour",
    "python examples/flights/prepare.py": "`make demo` does that",
    "PYTHONPATH=e2e .venv/bin/python -m oracle": "`make demo` does that",
    "export PG_DSN": "tests/spark/testing/test_examples.py runs the job without servers, tests/contract/sinks its sinks",
    "statefulspark run examples/sinks/totals.py": "as above",
}
"""How a command that no test runs begins, and why."""
_CONSOLE = "console"
_COMMENT = re.compile(r"\s+#\s.*$", re.MULTILINE)
_ASKED = re.compile(r"""\(\s*["'](?P<page>[\w./-]+\.md)["'],\s*(?P<number>\d+)""")
_ENDS_A_COMMAND = re.compile(r"&&|\|\||[|;&]|\bdo\b|\bdone\b")
_WATCHES = re.compile(r" (--watch|-w)$")
_WATCHED_FOR_S = 4
_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Command:
    """What a person types behind one prompt.

    Attributes:
        text: In one or several lines, without the prompt.
    """

    text: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The simple commands in it, each in one line and without its comment."""
        line = " ".join(_COMMENT.sub("", self.text.replace("\\\n", " ")).split())
        return tuple(part.strip() for part in _ENDS_A_COMMAND.split(line) if part.strip())

    @property
    def outside(self) -> str | None:
        """Why no test runs it; None if one has to."""
        reasons = (why for part in self.parts for begins, why in OUTSIDE.items() if _begins(part, begins))
        return next(reasons, None)


def _begins(part: str, begins: str) -> bool:
    return part == begins or part.startswith((f"{begins} ", f"{begins}="))


def commands(page: str, number: int) -> tuple[Command, ...]:
    """Return the commands of the block for a console with this number, from 1, in a page."""
    return tuple(_commands_of(pagecode.block(page, number, language=_CONSOLE)))


def _commands_of(block: str) -> Iterator[Command]:
    lines: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if lines:
                yield Command("\n".join(lines))
            lines = [line.removeprefix("$ ")]
        elif lines and _is_open("\n".join(lines)):
            lines.append(line)
    if lines:
        yield Command("\n".join(lines))


def _is_open(text: str) -> bool:
    """Tell whether a shell would ask for more lines."""
    return text.endswith("\\") or (text.startswith("for ") and "done" not in text)


def all_of(page: str) -> Iterator[tuple[int, Command]]:
    """Yield the commands of a page, with the number of the block."""
    for number in range(1, len(pagecode.blocks(page, language=_CONSOLE)) + 1):
        for command in commands(page, number):
            yield number, command


def asked_for(*tests: Path) -> frozenset[tuple[str, int]]:
    """Return the blocks that tests run, as page and number."""
    matches = (match for test in tests for match in _ASKED.finditer(test.read_text(encoding="utf-8")))
    return frozenset((match["page"], int(match["number"])) for match in matches)


@dataclass(frozen=True)
class Console:
    """A shell in which blocks are run.

    Attributes:
        folder: Where it is, and its home.
        environment: Variables beside those of this process.
    """

    folder: Path
    environment: Mapping[str, str]

    def run(self, page: str, number: int, replaced: Mapping[str, str] | None = None) -> str:
        """Run a block, command by command; each has to succeed. A command that watches is ended after seconds.

        Args:
            page: The page, by its path in the repository.
            number: Of the block for a console in it, from 1.
            replaced: What the page cannot know, such as a free port, by what stands there.

        Returns:
            What was printed.
        """
        inside = [command for command in commands(page, number) if command.outside is None]
        assert inside, f"{page} {number}: nothing in it can be run"
        for text in replaced or {}:
            assert any(text in command.text for command in inside), f"{page} {number}: there is no {text}"
        return self.script("\n".join(_as_line(command, replaced or {}) for command in inside))

    def script(self, text: str) -> str:
        """Run a script that has to succeed; returns what it printed, without its errors."""
        errors = self.folder / "console.errors"
        shell = processes.Process(
            "the console",
            self.folder / "console.output",
            environment={"HOME": str(self.folder), **self.environment},
            leads_session=True,
        )
        prepared = f"exec 2> {shlex.quote(str(errors))}\ncd {shlex.quote(str(self.folder))}\n{text}"
        shell.launch(["bash", "-euo", "pipefail", "-c", prepared])
        code = shell.wait_end(_WITHIN_S)
        assert code == 0, f"{text}\n{shell.tail}{errors.read_text(encoding='utf-8')}"
        return shell.output


def _as_line(command: Command, replaced: Mapping[str, str]) -> str:
    text = command.text
    for old, new in replaced.items():
        text = text.replace(old, new)
    return f"timeout {_WATCHED_FOR_S} {text} || [ $? = 124 ]" if _WATCHES.search(text) else text
