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
PATIENCE_S = 60.0
ROWS_S = 5.0
"""A table that is empty for so long has no rows."""


@dataclass
class Chromium:
    """A browser, whose profile lies in ``directory``."""

    directory: Path
    program: str = field(default_factory=lambda: found_chromium())

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
        """The value of a JavaScript expression in the page, of a promise what it resolves to."""
        done = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
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
    def html(self) -> str:
        """The page as scripts have made it."""
        return str(self.run("document.documentElement.outerHTML"))

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of the table with this id once a script has filled it, each cell by its column's heading."""
        rows = f"[...document.querySelectorAll('#{name} tbody tr')].filter(row => row.cells.length > 1)"
        ends = time.monotonic() + ROWS_S
        while not self.run(f"{rows}.length") and time.monotonic() < ends:
            time.sleep(0.05)
        headings = self._texts(f"#{name} thead th")
        found: list[list[str]] = self.run(f"{rows}.map(row => [...row.cells].map(cell => cell.textContent))")
        return [dict(zip(headings, map(_line, cells), strict=True)) for cells in found]

    def terms(self) -> dict[str, str]:
        """The page's list of terms and descriptions."""
        return dict(zip(self._texts("dt"), self._texts("dd"), strict=True))

    def _texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(f"[...document.querySelectorAll('{selector}')].map(each => each.textContent)")
        return [_line(each) for each in found]

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


def _line(text: str) -> str:
    return " ".join(text.split())
