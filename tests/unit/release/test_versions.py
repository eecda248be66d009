"""The version of the repository, which stands in several files."""

from pathlib import Path

import pytest

from release import versions

ROOT = Path(__file__).resolve().parents[3]


def test_all_files_of_this_repository_state_one_version() -> None:
    assert versions.agreed(versions.stated(ROOT))


@pytest.mark.parametrize(
    ("file", "before", "after", "place"),
    [
        (versions.RUNTIME, 'version = "1.2.0"', 'version = "1.3.0"', "jobruntime/pyproject.toml version"),
        (versions.OPERATOR, 'version = "1.2.0"', 'version = "1.3.0"', "operator/pyproject.toml version"),
        (versions.OPERATOR, "statefulspark==1.2.0", "statefulspark==1.1.0", "dependency statefulspark"),
        (versions.OPERATOR, "statefulspark==1.2.0", "statefulspark", "not pinned"),
        (versions.CHART, "\nversion: 1.2.0", "\nversion: 1.2.1", "Chart.yaml version"),
        (versions.CHART, 'appVersion: "1.2.0"', 'appVersion: "1.1.0"', "Chart.yaml appVersion"),
    ],
)
def test_a_file_that_was_forgotten_is_named(tmp_path: Path, file: str, before: str, after: str, place: str) -> None:
    _write_tree(tmp_path)
    assert versions.agreed(versions.stated(tmp_path)) == "1.2.0"
    changed = tmp_path / file
    text = changed.read_text()
    assert before in text
    changed.write_text(text.replace(before, after))

    with pytest.raises(ValueError, match="make it the same in all") as raised:
        versions.agreed(versions.stated(tmp_path))

    assert place in str(raised.value)


def _write_tree(root: Path) -> None:
    files = {
        versions.RUNTIME: '[project]\nversion = "1.2.0"\n',
        versions.OPERATOR: '[project]\nversion = "1.2.0"\ndependencies = ["kopf>=1", "statefulspark==1.2.0"]\n',
        versions.CHART: 'name: statefulspark-operator\nversion: 1.2.0\nappVersion: "1.2.0"\nkubeVersion: ">=1.29.0-0"\n',
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
