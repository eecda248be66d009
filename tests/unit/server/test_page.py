"""The page of a driver: its files are valid, its headers strict, and it asks nobody but the driver."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import cast
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree as ET

import pytest
import statefulspark
from fakecontrol import FakeControl, served
from hatchling.builders.wheel import WheelBuilder
from statefulspark.contract import api
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.contract.statistics import SnapshotState
from statefulspark.server import openapi, page

_TEXTS = {name: body.decode() for name, body in page.files().items()}
_SCRIPTS = {name: text for name, text in _TEXTS.items() if name.endswith(".js")}
_INDEX = _TEXTS[page.INDEX]
_VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})


@dataclass
class Outline(HTMLParser):
    """Reads HTML that closes what it opens; what else it finds is a fault.

    Attributes:
        elements: Name and attributes of each element, in order.
        faults: What is wrong, in sentences.
    """

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    declarations: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> has an attribute twice")
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self._open[-1:]} in line {self.getpos()[0]}")
            return
        self._open.pop()

    def close(self) -> None:
        super().close()
        if self._open:
            self.faults.append(f"{self._open} stay open")

    def all(self, attribute: str) -> list[str]:
        """Return the values of an attribute, wherever it is."""
        return [
            value or "" for _, attributes in self.elements for name, value in attributes.items() if name == attribute
        ]


@pytest.fixture
def outline() -> Outline:
    read = Outline()
    read.feed(_INDEX)
    read.close()
    return read


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]


def _ask(url: str, path: str, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    answer = Answer(response.status, response.read(), dict(response.getheaders()))
    connection.close()
    return answer


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FakeControl()) as address:
        yield address


# What is served


@pytest.mark.parametrize("name", ["", *sorted(_TEXTS)])
def test_every_file_is_served_without_a_token_as_what_it_is(url: str, name: str) -> None:
    answer = _ask(url, f"/ui/{name}")

    expected = page.CONTENT_TYPES[Path(name or page.INDEX).suffix]
    assert (answer.status, answer.body) == (200, page.files()[name or page.INDEX])
    assert answer.headers["Content-Type"] == f"{expected}; charset=utf-8"


@pytest.mark.parametrize("name", ["", *sorted(_TEXTS)])
def test_every_file_comes_with_headers_that_allow_nothing_from_elsewhere(url: str, name: str) -> None:
    headers = _ask(url, f"/ui/{name}").headers

    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["/v1/status", "/v1/nothing", "/v1/checkpoints/x"])
def test_no_browser_and_no_proxy_keeps_what_is_told_about_the_job(url: str, path: str) -> None:
    headers = _ask(url, path).headers

    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


@pytest.mark.parametrize("path", ["/ui/nothing.js", "/ui/../server/http.py", "/ui/%2e%2e/page.py", "/ui/page.py"])
def test_nothing_but_the_files_of_the_page_is_served(url: str, path: str) -> None:
    assert _ask(url, path).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_the_page_takes_nothing(url: str, method: str) -> None:
    assert _ask(url, "/ui/", method).status == 405


@pytest.mark.parametrize("prefix", ["", "/namespaces/default/words"])
@pytest.mark.parametrize("path", ["/", "/ui"])
def test_the_short_addresses_lead_to_the_page_below_any_path(url: str, prefix: str, path: str) -> None:
    answer = _ask(url, path)

    assert answer.status == 307
    assert urljoin(f"http://host{prefix}{path}", answer.headers["Location"]) == f"http://host{prefix}/ui/"


@pytest.mark.parametrize("prefix", ["", "/namespaces/default/words"])
def test_everything_that_the_page_refers_to_is_there_below_any_path(url: str, prefix: str, outline: Outline) -> None:
    local = [name for name in (*outline.all("href"), *outline.all("src")) if not name.startswith("#")]
    for reference in local:
        address = urlsplit(urljoin(f"http://host{prefix}/ui/", reference))
        assert (address.netloc, address.path.startswith(f"{prefix}/")) == ("host", True), reference
        # What is below /v1 is there, and needs the token.
        assert _ask(url, address.path.removeprefix(prefix)).status in (200, 401), reference


def test_the_files_are_part_of_the_wheel() -> None:
    root = Path(statefulspark.__file__).parents[2]
    packed = {one.distribution_path for one in WheelBuilder(str(root)).recurse_included_files()}

    assert {f"statefulspark/server/ui/{name}" for name in _TEXTS} <= packed


def test_the_page_is_small() -> None:
    assert sum(len(body) for body in page.files().values()) < 60_000


# The document


def test_the_document_is_valid(outline: Outline) -> None:
    identifiers = outline.all("id")

    assert outline.declarations == ["doctype html"]
    assert outline.faults == []
    assert sorted(identifiers) == sorted(set(identifiers))
    assert outline.elements[0] == ("html", {"lang": "en"})


def test_what_the_document_points_to_exists(outline: Outline) -> None:
    anchors = [name.removeprefix("#") for name in outline.all("href") if name.startswith("#")]
    pointed = {*outline.all("for"), *outline.all("aria-labelledby"), *outline.all("aria-describedby"), *anchors}

    assert pointed <= set(outline.all("id"))


def test_every_section_and_field_has_a_name(outline: Outline) -> None:
    sections = [attributes for tag, attributes in outline.elements if tag in ("section", "form")]
    fields = {attributes["id"] for tag, attributes in outline.elements if tag == "input"}

    assert all(attributes.get("aria-labelledby") for attributes in sections)
    assert fields == set(outline.all("for"))
    assert [tag for tag, _ in outline.elements if tag in ("h1", "h2", "h3")] == ["h1", *["h2"] * len(sections)]


def test_nothing_is_written_into_the_document_that_the_policy_forbids(outline: Outline) -> None:
    scripts = [attributes for tag, attributes in outline.elements if tag == "script"]
    names = {name for _, attributes in outline.elements for name in attributes}

    assert scripts == [{"type": "module", "src": "page.js"}]
    assert "<style" not in _INDEX
    assert {name for name in names if name == "style" or name.startswith("on")} == set()


def test_the_document_is_readable_on_a_phone_and_in_the_dark(outline: Outline) -> None:
    named = {attributes.get("name"): attributes.get("content") for tag, attributes in outline.elements if tag == "meta"}

    assert named["viewport"] == "width=device-width, initial-scale=1"
    assert named["color-scheme"] == "light dark"
    assert "@media (prefers-color-scheme: dark)" in _TEXTS["page.css"]


def test_every_colour_has_a_dark_one() -> None:
    light, dark = (
        set(re.findall(r"(--[\w-]+):", block)) for block in re.findall(r":root \{([^}]*)\}", _TEXTS["page.css"])
    )

    assert light == dark
    assert set(re.findall(r"var\((--[\w-]+)\)", _TEXTS["page.css"])) == light


def test_text_can_be_read_in_both_schemes() -> None:
    """WCAG 2.2 asks for a contrast of 4.5 to 1."""
    for block in re.findall(r":root \{([^}]*)\}", _TEXTS["page.css"]):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block))
        texts = ("text", "quiet", "accent", "savepoint", "good", "warn", "bad")
        for name in texts:
            for ground in ("ground", "surface"):
                assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_icon_is_an_image_without_a_script() -> None:
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(_TEXTS["icon.svg"]).iter()}  # noqa: S314 - our own

    assert tags == {"svg", "rect", "path", "circle"}


# The scripts


@pytest.mark.parametrize("name", sorted(_SCRIPTS))
def test_a_script_imports_only_files_of_the_page(name: str) -> None:
    imported = re.findall(r'^import .* from "([^"]+)";$', _SCRIPTS[name], re.MULTILINE)

    assert len(imported) == len(re.findall(r"^import\b", _SCRIPTS[name], re.MULTILINE))
    assert {one.removeprefix("./") for one in imported} <= _SCRIPTS.keys()
    assert all(one.startswith("./") for one in imported)


@pytest.mark.parametrize(
    "forbidden",
    [
        *("XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", "import(", "importScripts", "Worker("),
        *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser"),
        *("localStorage", "sessionStorage", "indexedDB", "cookie", "caches."),
        *("window.open", "location.", ".style", '"style"', "postMessage", "console."),
    ],
)
def test_no_script_uses(forbidden: str) -> None:
    assert [name for name, text in _SCRIPTS.items() if forbidden in text] == []


def test_only_one_script_uses_the_network_and_only_the_origin_of_the_page() -> None:
    code = {name: re.sub(r"//.*|/\*.*?\*/", "", text) for name, text in _SCRIPTS.items()}
    addresses = {name: re.findall(r"[a-z]+://[^\"'`]*", _SCRIPTS[name]) for name in _SCRIPTS}

    assert {name: text.count("fetch(") for name, text in code.items() if "fetch(" in text} == {"api.js": 1}
    assert 'new URL("../v1/", import.meta.url)' in code["api.js"]
    assert all(f"{setting}," in code["api.js"] for setting in ('mode: "same-origin"', 'redirect: "error"'))
    assert "method:" not in code["api.js"]
    # The name of a namespace; nothing is fetched from there.
    assert {name: found for name, found in addresses.items() if found} == {"dom.js": ["http://www.w3.org/2000/svg"]}


def test_style_sheets_load_nothing() -> None:
    assert "url(" not in _TEXTS["page.css"]
    assert "@import" not in _TEXTS["page.css"]


def test_every_part_that_the_scripts_fill_is_in_the_document(outline: Outline) -> None:
    text = _SCRIPTS["page.js"]
    named = set(re.findall(r'part\("([\w-]+)"\)', text))
    (listed,) = re.findall(r"for \(const id of \[([^\]]*)\]\)", text)

    assert named | set(re.findall(r'"(\w+)"', listed)) <= set(outline.all("id"))
    assert len(named) > 5


# What the page needs of the API

_OF_JAVASCRIPT = frozenset({"length"})


def _fields() -> set[str]:
    schemas = cast("dict[str, dict[str, dict[str, object]]]", openapi.document()["components"])["schemas"]
    return {name for schema in schemas.values() for name in cast("dict[str, object]", schema.get("properties", {}))}


@pytest.mark.parametrize("name", ["views.js", "charts.js"])
def test_every_field_that_the_page_shows_is_one_of_the_api(name: str) -> None:
    """A field that is renamed in the API would silently become a dash on the page."""
    code = re.sub(r'//.*|"[^"\n]*"', "", _SCRIPTS[name])
    shown = set(re.findall(r"(?:[a-z]\w*|\)|\])\??\.([a-z]\w*)\b(?!\()", re.sub(r"Math\.\w+|Object\.\w+", "", code)))

    assert shown - _OF_JAVASCRIPT <= _fields()
    assert len(shown & _fields()) > 5


def test_every_route_that_the_page_asks_is_one_of_the_api() -> None:
    asked = set(re.findall(r'ask\("(\w+)"\)', _SCRIPTS["page.js"]))

    assert {"batches", "checkpoints", "losses", "state"} <= asked
    assert {f"/v1/{name}" for name in asked} <= set(cast("dict[str, object]", openapi.document()["paths"]))


def test_every_state_of_a_job_is_explained_and_has_a_colour() -> None:
    (block,) = re.findall(r"export const STATES = \{(.*?)\n\};", _SCRIPTS["views.js"], re.DOTALL)
    coloured = set(re.findall(r'\[data-state="(\w+)"\]', _TEXTS["page.css"]))
    states = {state.value for state in api.JobState}

    assert set(re.findall(r"^  (\w+): ", block, re.MULTILINE)) == states
    assert states | {state.value for state in api.StandbyState} | {state.value for state in SnapshotState} <= coloured


def test_every_kind_of_snapshot_has_a_colour_in_the_timeline() -> None:
    styled = set(re.findall(r"\.timeline \.(\w+)", _TEXTS["page.css"]))

    assert {kind.value for kind in SnapshotKind} <= styled
