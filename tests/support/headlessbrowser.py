"""Headless Chromium and one of its tabs, driven over the DevTools protocol on loopback.

Chromium is Debian's package, which `make page` installs. Every tab has a context of its own, without anything that another
one has stored. The protocol: https://chromedevtools.github.io/devtools-protocol.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import processes

WAIT_S = 15.0
_LOOKS_EVERY_S = 0.05
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_Answer = dict[str, Any]
_Result = TypeVar("_Result")


class Chromium(processes.Server):
    """A browser without a window.

    Args:
        folder: An empty folder for its profile and its log.
    """

    starts_within_s = 60.0

    def __init__(self, folder: Path) -> None:
        super().__init__("chromium", folder / "chromium.log")
        self._profile = folder / "profile"

    def command(self) -> Sequence[str]:
        found = next((path for path in map(shutil.which, _PROGRAMS) if path), None)
        assert found, f"None of {', '.join(_PROGRAMS)} is installed; `make page` installs Debian's chromium."
        return (
            *(found, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self._profile}"),
            # Its sandbox needs rights that root in a container does not have; only our own page is opened.
            *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *(
                "--hide-scrollbars",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-extensions",
                "--disable-sync",
            ),
            "about:blank",
        )

    def answers(self) -> bool:
        return len(self._told()) == 2

    @property
    def address(self) -> str:
        """The address of its DevTools."""
        port, path = self._told()
        return f"ws://{processes.LOOPBACK}:{port}{path}"

    def _told(self) -> list[str]:
        file = self._profile / "DevToolsActivePort"
        return file.read_text().split() if file.exists() else []

    @contextmanager
    def tab(self, *, width: int = 1200, height: int = 1600, scheme: str = "light") -> Iterator[Tab]:
        """Open a tab while the block runs; sizes in CSS pixels, the colour scheme `light` or `dark`."""
        opened = Tab(self.address)
        try:
            opened.resize(width, height)
            opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            yield opened
        finally:
            opened.close()


class Tab:
    """One tab.

    Attributes:
        asked: The address of every request that it has sent, in order.
        faults: Exceptions of scripts, and what the browser refused, in sentences.
    """

    def __init__(self, address: str) -> None:
        self.asked: list[str] = []
        self.faults: list[str] = []
        self._numbers = iter(range(1, 1_000_000))
        self._answers: dict[int, asyncio.Future[_Answer]] = {}
        self._session_id: str | None = None
        self._loaded = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="devtools", daemon=True)
        self._thread.start()
        self._run(self._connect(address))

    def open(self, url: str) -> None:
        """Go to an address and wait until its files are loaded; what its scripts do goes on."""
        self._loaded.clear()
        told = self.call("Page.navigate", url=url)
        assert "errorText" not in told, told
        assert self._loaded.wait(WAIT_S), f"{url} was not loaded"

    def call(self, method: str, **parameters: object) -> _Answer:
        """Send a command of the protocol and return its answer."""
        return self._run(self._send(method, parameters))

    def value(self, expression: str) -> Any:
        """Evaluate an expression, or the promise that it gives, in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text that a person sees in an element, in one line; empty if there is none."""
        shown = self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return " ".join(str(shown).split())

    def until(self, expression: str, within_s: float = WAIT_S) -> None:
        """Wait until an expression is true in the page."""
        deadline_s = time.monotonic() + within_s
        while not self.value(expression):
            assert time.monotonic() < deadline_s, (expression, self.text("body"), self.faults)
            time.sleep(_LOOKS_EVERY_S)

    def until_text(self, selector: str, part: str, within_s: float = WAIT_S) -> None:
        """Wait until an element shows a text."""
        deadline_s = time.monotonic() + within_s
        while part not in self.text(selector):
            assert time.monotonic() < deadline_s, (selector, part, self.text("body"), self.faults)
            time.sleep(_LOOKS_EVERY_S)

    def resize(self, width: int, height: int) -> None:
        """Make the window this large, in CSS pixels; a narrow one is a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def press(self, key: str) -> None:
        """Press and release a key, by its name in the protocol: `Tab`, `Enter`."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"Enter": "\r"}.get(key, "")
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            typed = {"text": text} if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed)

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, file: Path) -> None:
        """Write what the whole page looks like, as PNG; the window is made as high as the page meanwhile.

        What is beyond the window is not always painted: a picture of more than the window lacked a table that scrolls.
        """
        width, height, whole = self.value("[innerWidth, innerHeight, document.documentElement.scrollHeight]")
        self.resize(width, max(height, whole))
        taken = self.call("Page.captureScreenshot", format="png")
        self.resize(width, height)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        """Close the connection; the tab and its context go with it."""
        self._run(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)

    def _run(self, work: Coroutine[object, object, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    async def _connect(self, address: str) -> None:
        self._client = aiohttp.ClientSession()
        self._socket = await self._client.ws_connect(address, max_msg_size=0)
        self._reader = asyncio.create_task(self._read())
        context = await self._send("Target.createBrowserContext", {"disposeOnDetach": True})
        place = {"url": "about:blank", "browserContextId": context["browserContextId"]}
        target = await self._send("Target.createTarget", place)
        attached = await self._send("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        self._session_id = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self._send(f"{domain}.enable", {})
        # Otherwise only the tab that was opened last is one that somebody looks at.
        await self._send("Emulation.setFocusEmulationEnabled", {"enabled": True})

    async def _disconnect(self) -> None:
        await self._socket.close()
        await self._reader
        await self._client.close()

    async def _send(self, method: str, parameters: dict[str, Any]) -> _Answer:
        number = next(self._numbers)
        awaited = self._answers[number] = asyncio.get_running_loop().create_future()
        addressed = {"sessionId": self._session_id} if self._session_id else {}
        await self._socket.send_json({"id": number, "method": method, "params": parameters, **addressed})
        answer = await awaited
        assert "error" not in answer, (method, answer["error"])
        result: _Answer = answer["result"]
        return result

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            else:
                self._note(told["method"], told["params"])

    def _note(self, event: str, told: _Answer) -> None:
        if event == "Page.loadEventFired":
            self._loaded.set()
        elif event == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description", details["text"]))
        # A request that fails is an entry as well; what the page makes of it is what a test asks.
        elif event == "Log.entryAdded" and told["entry"]["source"] != "network" and told["entry"]["level"] == "error":
            self.faults.append(told["entry"]["text"])


@contextmanager
def running(folder: Path) -> Iterator[Chromium]:
    """Run a browser while the block runs; it ends with every process that it has started."""
    browser = Chromium(folder)
    try:
        browser.start()
        yield browser
    finally:
        if browser.runs:
            browser.send_to_family(browser.ends_with)
        browser.stop()
