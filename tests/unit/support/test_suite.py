"""The parts of the suite: every test is in one of them, and a failure in any is a failure."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from suite import __main__ as suite

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def handler_of_the_process() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("is_measured", [False, True], ids=["alone", "with coverage"])
def test_a_failing_part_fails_the_whole_and_both_are_shown(
    is_measured: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = "import statefulspark.clock\ndef test_it():\n    assert {}\n"
    for name, holds in {"good": True, "bad": False}.items():
        (tmp_path / f"test_{name}.py").write_text(source.format(holds))
    parts = {name: [str(tmp_path / f"test_{name}.py"), "-p", "no:cacheprovider"] for name in ("good", "bad")}

    code = suite.run(parts, tmp_path / "coverage" if is_measured else None)

    shown = capfd.readouterr().out
    assert code == 1
    assert "[good] passed after" in shown
    assert "[bad] FAILED with exit code 1 after" in shown
    assert "[bad] E       assert False" in shown
    assert any("test_bad.py::test_it" in line for line in shown.splitlines()[-3:])
    assert ("TOTAL" in shown) is is_measured


def test_every_test_is_in_exactly_one_part() -> None:
    folders = [folder for named in suite.parts().values() for folder in named]
    files = {file for folder in folders for file in (ROOT / folder).rglob("test_*.py")}

    assert files == set((ROOT / "tests").rglob("test_*.py"))
    assert not [one for one in folders for other in folders if one is not other and Path(one).is_relative_to(other)]
    assert set(folders) >= suite.SESSIONS | suite.RULES, "no folder is named that is not there"
