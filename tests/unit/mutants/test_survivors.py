"""The mutation check names what there is: modules, tests and lists move with the sources."""

from __future__ import annotations

from mutation import groups, survivors, workspace


def test_every_group_names_modules_and_tests_that_exist() -> None:
    sources = [workspace.ROOT / folder for folder in ("jobruntime/src", "operator/src")]
    for group in groups.GROUPS:
        assert [one for one in group.modules if not any([*folder.glob(one)] for folder in sources)] == []
        assert [one for one in group.tests if not (workspace.ROOT / "tests" / one).exists()] == []


def test_every_list_can_be_read_and_belongs_to_a_group() -> None:
    lists = sorted((workspace.ROOT / "tests" / "mutants").glob("*.toml"))

    assert {path.stem for path in lists} <= {group.name for group in groups.GROUPS}
    assert all(survivors.parse(path.read_text()) or not path.read_text().strip() for path in lists)
