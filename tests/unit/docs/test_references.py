"""The references of the site have everything that the code offers."""

from __future__ import annotations

import memforest_core
from docs.references import command_reference, http_reference, python_reference, settings_reference
from memforest_core.cli.config import walk
from memforest_core.cli.program import PANELS
from memforest_core.client.api import MemForest
from memforest_core.service.http.http_app import openapi
from memforest_core.settings import Settings


def test_every_operation_has_a_heading() -> None:
    document = openapi()
    text = http_reference(document)

    named = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert {name for name in named if f"\n### `{name}`\n" not in text} == set()


def test_every_public_name_is_documented() -> None:
    """Given what the package exports and the methods of the memory, then each has a heading or a line of a table."""
    text = python_reference()

    methods = {name for name in dir(MemForest) if name[0] != "_" and callable(getattr(MemForest, name))}
    reported = {line.strip("#| `").partition("`")[0] for line in text.splitlines() if line.startswith(("### ", "| `"))}
    outside = {"MemForest", "Lifecycle"}  # the page's own sections
    assert (set(memforest_core.__all__) | methods) - reported - outside == set()


def test_every_setting_is_documented() -> None:
    text = settings_reference()

    assert {each.variable for each in walk(Settings()) if f"| `{each.variable}` |" not in text} == set()


def test_every_command_has_a_heading() -> None:
    text = command_reference()

    names = {name for names in PANELS.values() for name in names.split()}
    assert {name for name in names if f"\n### `memforest {name}`\n" not in text} == set()
    assert "### `memforest keys create`" in text and "| `--data`" in text
