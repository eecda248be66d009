"""The notes of a release, from the changelog."""

import pytest

from release import notes

CHANGELOG = """# Changelog
All notable changes.

## Unreleased
### Added
- A page.

## 0.2.0 - 2026-12-01
### Fixed
- A row that was lost.

## 0.1.0 - 2026-11-01
- The first.

## 0.0.1
"""


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Unreleased", "### Added\n- A page."),
        ("0.2.0", "### Fixed\n- A row that was lost."),
        ("0.1.0", "- The first."),
    ],
)
def test_a_section_ends_where_the_next_begins(title: str, text: str) -> None:
    assert notes.section(CHANGELOG, title) == text


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("0.3.0", "has no section 0.3.0 .it has: Unreleased, 0.2.0, 0.1.0, 0.0.1."),
        ("0.0.1", "section 0.0.1 .* is empty"),
    ],
)
def test_a_release_without_notes_is_refused(title: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        notes.section(CHANGELOG, title)


def test_the_notes_say_the_order_of_an_upgrade_and_name_every_file() -> None:
    text = notes.written("0.2.0", "- A row.", ["a.whl", "crds.yaml"])

    assert text.index("CRDs") < text.index("the operator") < text.index("the images of the jobs")
    assert "# Stateful Spark 0.2.0" in text
    assert "- A row." in text
    assert "- `a.whl`\n- `crds.yaml`" in text
