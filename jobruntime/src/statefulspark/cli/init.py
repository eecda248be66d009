"""`statefulspark init`: a folder with a job that runs, its test, and what Kubernetes needs.

The files are those of the folder `template` of this package, which is such a job itself, by the name of `my-job`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import click

from statefulspark import errors
from statefulspark.commandline import commands, tables, terminal
from statefulspark.contract.exit_codes import ExitCode

_EPILOG = """\
examples:
  statefulspark init my-job
  cd my-job
  statefulspark run job.py --dev

exit codes:
  0 done   2 the folder is not empty, cannot be written, or cannot name a job
"""
TEMPLATE = "template"
TEMPLATE_NAME = "my-job"
FILES = {
    "job.py": "the job",
    "test_job.py": "its tests: of the function without Spark, and of the job",
    "Dockerfile": "its image",
    "job.yaml": "the job on Kubernetes",
    "values.yaml": "the operator's Helm chart",
    "README.md": "what to do with them",
    ".gitignore": "keeps state out of git",
    ".statefulsparkjob_v1alpha1.json": "lets an editor complete and check job.yaml",
}
"""The files, and what they are."""
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,43}[a-z0-9])?")
"""What Kubernetes takes as the name of a job."""


@click.command(
    "init",
    cls=commands.Command,
    short_help="make a folder with a job that runs",
    help="Make a folder with a job that runs, its test, a Dockerfile, and the files for Kubernetes.",
    epilog=_EPILOG,
)
@click.argument("folder", type=click.Path(path_type=Path), help="a new or empty folder; its name is the job's")
def command(folder: Path) -> int:
    """Run the command."""
    written = render(folder.absolute().name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise errors.SpecRejectedError(
                "FolderNotEmpty",
                f"The folder {folder} is not empty, and nothing in it is replaced; name another folder.",
            )
        for name, text in written.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise errors.SpecRejectedError(
            "FolderUnwritable", f"The folder {folder} cannot be written: {error.strerror}; name another folder."
        ) from error
    width = max(map(len, FILES))
    listed = "".join(f"{name:<{width}}{tables.GAP}{what}\n" for name, what in FILES.items())
    terminal.write(f"{folder}/\n{tables.indent(listed)}")
    terminal.note(f"\nNext:\n  cd {folder}\n  statefulspark run job.py --dev")
    return ExitCode.SUCCESS


def render(name: str) -> Mapping[str, str]:
    """Return the text of each file.

    Args:
        name: The name of the job.

    Raises:
        SpecRejectedError: `NameInvalid`.
    """
    if _NAME.fullmatch(name) is None:
        raise errors.SpecRejectedError(
            "NameInvalid",
            f"The folder {name!r} cannot name a job: it needs 1 to 45 characters of a-z, 0-9 and '-', with a "
            "letter first and no '-' last; try `statefulspark init my-job`.",
        )
    template = resources.files("statefulspark") / TEMPLATE
    # Package tools leave out files that begin with a dot.
    return {file: (template / file.removeprefix(".")).read_text().replace(TEMPLATE_NAME, name) for file in FILES}
