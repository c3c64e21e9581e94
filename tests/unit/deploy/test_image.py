"""The image is built from files that exist, with the lock files of the image, and from nothing else."""

from __future__ import annotations

import re

from tests.unit.deploy.builders import ROOT

TEXT = re.sub(r"\\\n\s*", "", (ROOT / "deploy/Dockerfile").read_text())
COPIED = [source for line in re.findall(r"^COPY (?!--from)(.+)$", TEXT, re.MULTILINE) for source in line.split()[:-1]]


def test_it_copies_what_exists_and_is_let_through() -> None:
    """Given a path that is copied, then it exists, and .dockerignore lets it and only such paths through."""
    assert [path for path in COPIED if not (ROOT / path).exists()] == []
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(COPIED)


def test_it_installs_with_hashes() -> None:
    """Given an installation from the network, then hashes are required; our own wheel comes without dependencies."""
    installs = re.findall(r"pip install ([^&\n]+)", TEXT)
    assert len(installs) == 3
    for install in installs:
        assert "--no-deps" in install
        assert "--require-hashes" in install or "--no-index" in install
