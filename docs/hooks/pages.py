"""Bring what pages link to outside of docs/ into the site, so that no link of the site leads out of it.

A hook of MkDocs. A linked page of the repository (an example's README, the measurements) becomes a page below `repository/`,
any other file a page that shows it, a folder without a README a list of its files. Links are followed from page to page, and
written anew for where their targets are in the site. It changes nothing on disk.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "repository"
_LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_LOADED_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|link|source)\b[^>]*\b(?:src|href)="?((?:https?:)?//[^"\s>]+)"""
)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sh": "bash", "": "text"}
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```$", re.DOTALL | re.MULTILINE)
"""Drawn where the repository is read; the site would need a script of 3 MB for it, and has pictures of its own."""
_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_ITEM = re.compile(r"(?:[-*]|\d+\.) |\|")
_PARAGRAPH = re.compile(r"(?!\s|[-*] |\d+\. |\||#|<!--).")
_SHOWN = frozenset({".md", ".png", ".svg", ".json"})


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for everything outside of docs/ that can be reached by links, and for folders without a page."""
    known = {f"docs/{file.src_uri}" for file in files.documentation_pages()}
    queue = sorted(known)
    while queue:
        source = queue.pop()
        for target in _targets(source):
            if target not in known:
                known.add(target)
                queue.append(target)
                _add(files, target, config)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write the links of a page for where their targets are in the site."""
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def rewritten(link: re.Match[str]) -> str:
        target = _resolve(source, link["target"])
        if target is None:
            return link[0]
        place = posixpath.relpath(_place(target), posixpath.dirname(page.file.src_uri) or ".")
        return f"{link['before']}{place}{link['anchor'] or ''}{link['after']}"

    pictures = posixpath.relpath("concepts/index.md", posixpath.dirname(page.file.src_uri) or ".")
    linked = _outside_of_code(markdown, lambda text: _LINK.sub(rewritten, text))
    return _separated(_DIAGRAM.sub(f"*For pictures of this: [how it works]({pictures}).*", linked))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show a pipe in a cell as a pipe: in code Python's Markdown keeps the backslash that it needs there."""
    return _CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would load anything from elsewhere: the site has to work without a network."""
    found = _LOADED_FROM_ELSEWHERE.search(output)
    if found is not None:
        raise PluginError(f"{page.file.src_uri} loads {found[1]}; bring it into docs/assets, or leave it out.")
    return output


_SOURCES: dict[str, str] = {}
"""Of pages that are not files in docs/: what they show, below the repository's root."""


def _targets(source: str) -> Iterator[str]:
    """Yield what a page of the repository links to, and exists: paths below the root."""
    if source.endswith("/"):
        yield from (f"{source}{path.name}" for path in sorted((ROOT / source).iterdir()) if path.is_file())
    if not source.endswith(".md"):
        return
    text = (ROOT / source).read_text(encoding="utf-8")
    for link in _LINK.finditer(text):
        target = _resolve(source, link["target"])
        if target is not None:
            yield target


def _resolve(source: str, link: str) -> str | None:
    """Return what a link of a page means, below the root; of a folder its page. None if nothing is there."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    path = ROOT / target
    if target.startswith("..") or not path.exists():
        return None
    if not path.is_dir():
        return target
    pages = (f"{target}/{name}" for name in ("README.md", "index.md"))
    return next((page for page in pages if (ROOT / page).is_file()), f"{target}/")


def _place(target: str) -> str:
    """Return where something of the repository is in the site."""
    if target.endswith("/"):
        target = f"{target}index.md"
    elif posixpath.splitext(target)[1] not in _SHOWN:
        target = f"{target}.md"
    return target.removeprefix("docs/") if target.startswith("docs/") else f"{FOLDER}/{target}"


def _add(files: Files, target: str, config: MkDocsConfig) -> None:
    place = _place(target)
    if files.get_file_from_path(place) is not None:
        return
    _SOURCES[place] = target
    if target.endswith("/"):
        content: str | bytes = _listing(target)
    elif posixpath.splitext(target)[1] in _SHOWN:
        content = (ROOT / target).read_bytes()
    else:
        content = _shown(target)
    files.append(File.generated(config, place, content=content))


def _listing(folder: str) -> str:
    """Return a page with the files of a folder; a page of Markdown is named by its title."""
    rows = [f"- [{_title(path)}]({path.name})" for path in sorted((ROOT / folder).iterdir()) if path.is_file()]
    title = "Decisions" if folder == "docs/adr/" else f"`{folder}`"
    return "\n".join((f"# {title}", "", *rows, ""))


def _title(path: Path) -> str:
    if path.suffix != ".md":
        return path.name
    return path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def _shown(target: str) -> str:
    text = (ROOT / target).read_text(encoding="utf-8")
    language = _LANGUAGES.get(posixpath.splitext(target)[1], "text")
    return f"# `{target}`\n\n````{language}\n{text.rstrip()}\n````\n"


def _separated(markdown: str) -> str:
    """Put an empty line between a paragraph and a list or table below it: Python's Markdown needs one, others do not."""
    lines: list[str] = []
    in_code = False
    for line in markdown.split("\n"):
        is_first = _ITEM.match(line) and lines and _PARAGRAPH.match(lines[-1])
        if is_first and not in_code:
            lines.append("")
        lines.append(line)
        in_code ^= line.lstrip().startswith("```")
    return "\n".join(lines)


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change what is not in a block of code; the text of a link may go over a line's end."""
    parts: list[str] = []
    text: list[str] = []
    in_code = False
    for line in markdown.split("\n"):
        is_fence = line.lstrip().startswith("```")
        if is_fence and text:
            parts.append(change("\n".join(text)))
            text = []
        if in_code or is_fence:
            parts.append(line)
        else:
            text.append(line)
        in_code ^= is_fence
    return "\n".join((*parts, *([change("\n".join(text))] if text else ())))
