"""A page as a person sees it, and acts on it: by a headless Chromium, scripts and all."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.harness.timing import until

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # it can't be had in most containers, and the only page visited is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1500,1000",
)
RENDER_MS = 4_000
"""Time of the page's own clock, which runs on at once whenever the page waits for nothing."""
PATIENCE_S = 60.0


@dataclass
class Page:
    """What scripts have made of a page."""

    url: str
    html: str

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows in the body of the table with this id, each by its column's heading."""
        reader = _parsed(self.html, table=name)
        return [dict(zip(reader.headings, cells, strict=True)) for cells in reader.rows if len(cells) > 1]

    def terms(self) -> dict[str, str]:
        """The page's list of terms and descriptions."""
        reader = _parsed(self.html)
        return dict(zip(reader.names, reader.descriptions, strict=True))


@dataclass
class Chromium:
    """A browser that visits one page at a time; its profile lies in ``directory``."""

    directory: Path
    program: str = field(default_factory=lambda: found_chromium())

    def visit(self, url: str) -> Page:
        """The page once its scripts have run."""
        return Page(url, self._run("--dump-dom", url))

    def picture(self, url: str, file: Path) -> Path:
        """A picture of the page, for people."""
        self._run(f"--screenshot={file}", url)
        return file

    @contextmanager
    def tab(self, *, scripts: bool = True) -> Iterator[Tab]:
        """A tab to act in, as a person does, who has no cookies at first; without ``scripts`` pages run none."""
        # Chromium reads commands from its descriptor 3 and answers on 4; of others sh takes those below 10 only.
        reading, commands = os.pipe()
        answers, telling = os.pipe()
        browser = subprocess.Popen(
            [
                *("sh", "-c", f'exec 3</dev/fd/{reading} 4>/dev/fd/{telling}; exec "$@"', "sh", self.program, *OPTIONS),
                f"--user-data-dir={self.directory / 'tab'}",
                "--remote-debugging-pipe",
                "--incognito",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(reading, telling),
            start_new_session=True,
        )
        os.close(reading)
        os.close(telling)
        try:
            tab = Tab(commands, answers)
            tab.begin(scripts)
            yield tab
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            os.close(commands)
            os.close(answers)

    def _run(self, *arguments: str) -> str:
        browser = subprocess.Popen(
            [
                self.program,
                *OPTIONS,
                f"--user-data-dir={self.directory / 'profile'}",
                f"--virtual-time-budget={RENDER_MS}",
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            rendered, _ = browser.communicate(timeout=PATIENCE_S)
        finally:
            if browser.poll() is None:
                os.killpg(browser.pid, signal.SIGKILL)
                browser.communicate()
        assert browser.returncode == 0, f"{self.program} ended with {browser.returncode} at {arguments}"
        return rendered


class Tab:
    """A page that is acted on, by the DevTools protocol over two pipes."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self._loads = 0
        self.complaints: list[str] = []
        """What the browser held against the pages: scripts that failed, what the content security policy refused."""

    def begin(self, scripts: bool) -> None:
        """Take the first tab."""
        targets = self._call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setScrollbarsHidden", hidden=True)
        if not scripts:
            self._call("Emulation.setScriptExecutionDisabled", value=True)

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Be a window of this size, in the light or in the dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to an address, and wait until the page is there."""
        self._loading(lambda: self._call("Page.navigate", url=url))

    def click(self, selector: str) -> None:
        """Click what leads to another page, and wait until that is there."""
        self._loading(lambda: self.run(f"document.querySelector({json.dumps(selector)}).click()"))

    def follow(self, text: str) -> None:
        """Click the first link or button that is written so."""
        found = f"[...document.querySelectorAll('a,button')].find(e => e.innerText.trim() === {json.dumps(text)})"
        assert self.run(f"!!{found}"), f"nothing to click is written {text!r} in {self.text}"
        self._loading(lambda: self.run(f"{found}.click()"))

    def fill(self, selector: str, value: str) -> None:
        """Write into a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, f"{expression}: {done['exceptionDetails']}"
        return done["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true, across reloads of the page."""
        until(lambda: self.run(expression), PATIENCE_S, lambda: f"never true: {expression}; the page is {self.text}")

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self.run("location.href"))

    @property
    def text(self) -> str:
        """What a person can read."""
        return str(self.run("document.body.innerText"))

    @property
    def page(self) -> Page:
        """The page as it is now."""
        return Page(self.url, str(self.run("document.documentElement.outerHTML")))

    def cookies(self) -> list[dict[str, Any]]:
        """The cookies that the browser has."""
        found: list[dict[str, Any]] = self._call("Network.getCookies")["cookies"]
        return found

    def picture(self, file: Path, height: int | None = None) -> Path:
        """A picture of the whole page, however long it is, or of its upper ``height`` pixels."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        shown = size["height"] if height is None else min(height, size["height"])
        clip = {"x": 0, "y": 0, "width": size["width"], "height": shown, "scale": 1}
        shot = self._call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file

    def _loading(self, act: Callable[[], object]) -> None:
        before = self._loads
        act()
        deadline = time.monotonic() + PATIENCE_S
        while self._loads == before:
            assert time.monotonic() < deadline, "the page does not load"
            self._hear(deadline)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        call: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith("Target."):
            call["sessionId"] = self._session
        os.write(self._commands, json.dumps(call).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            heard = self._hear(deadline)
            if heard.get("id") == number:
                assert "error" not in heard, f"{method}: {heard['error']}"
                result: dict[str, Any] = heard["result"]
                return result

    def _hear(self, deadline: float) -> dict[str, Any]:
        """The browser's next message."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        if heard.get("method") == "Page.loadEventFired":
            self._loads += 1
        elif heard.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(heard["params"]["exceptionDetails"]))
        elif heard.get("method") == "Log.entryAdded" and heard["params"]["entry"]["level"] == "error":
            self.complaints.append(str(heard["params"]["entry"]))
        return heard


def found_chromium() -> str:
    """The browser's program; without one the test fails and says what to install."""
    for name in NAMES:
        program = shutil.which(name)
        if program is not None:
            return program
    pytest.fail(f"Install Chromium (Debian: apt install chromium): none of {', '.join(NAMES)} is there.", pytrace=False)


class _Reader(HTMLParser):
    """Collects the cells of one table; terms and descriptions."""

    def __init__(self, table: str | None) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.rows: list[list[str]] = []
        self.names: list[str] = []
        self.descriptions: list[str] = []
        self._table = table
        self._inside = False
        self._part = ""
        self._open: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._inside = dict(attrs).get("id") == self._table
        elif tag in ("thead", "tbody", "tfoot"):
            self._part = tag
        elif tag == "tr" and self._inside and self._part == "tbody":
            self.rows.append([])
        elif tag in ("th", "td", "dt", "dd"):
            self._open = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._inside = False
        elif self._open is not None and tag in ("th", "td", "dt", "dd"):
            text, self._open = " ".join("".join(self._open).split()), None
            if tag in ("dt", "dd"):
                (self.names if tag == "dt" else self.descriptions).append(text)
            elif self._inside and self._part == "thead":
                self.headings.append(text)
            elif self._inside and self._part == "tbody":
                self.rows[-1].append(text)

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.append(data)


def _parsed(html: str, table: str | None = None) -> _Reader:
    reader = _Reader(table)
    reader.feed(html)
    reader.close()
    return reader
