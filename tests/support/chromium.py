"""A page as a person sees it: rendered by a headless Chromium, scripts and all, then read as tables and lists."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

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
