"""Stored text in a longer text can't be taken for another item of it."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import memforest_core
from memforest_core.calendar.records import SpeakerDigest, told
from memforest_core.context.records import ContextPart, PartKind, Section
from memforest_core.context.rendering import messages, sections
from memforest_core.domain.delivery import deliver, estimated_tokens, fitting
from memforest_core.domain.rendering import block, one_line, turn_line
from memforest_core.window.records import PartKind as WindowKind
from memforest_core.window.records import SessionWindow, WindowPart
from tests.support.forgeries import FORGERIES, assert_forges_nothing
from tests.unit.domain.test_delivery import piece

JOINING = {
    # rendered: every item goes through domain/rendering.py
    "calendar/records.py": "rendered",
    "context/rendering.py": "rendered",
    "domain/delivery.py": "rendered",
    "domain/rendering.py": "rendered",
    "mcp/tools.py": "rendered",
    "profile/describing.py": "rendered",
    "window/records.py": "rendered",
    # prompt: a JSON line or an escaped line an item
    "extract/prompt.py": "prompt",
    "recall/answering/prompt.py": "prompt",
}
"""Modules that join stored texts with line ends for a reader."""
STORED = {
    "calendar/condensing.py", "calendar/digesting.py", "domain/cells.py", "domain/chat_messages.py",
    "domain/extractive.py", "domain/pasted.py", "domain/tags.py", "embedded/process.py", "erase/rows/words.py",
    "explorer/provenance.py", "formats/openai.py", "integrations/langgraph.py", "integrations/llamaindex.py",
    "recall/calibration/cli.py", "recall/exact.py", "refresh/service.py", "store/functions/__init__.py",
    "transfer/merge/rows/content.py", "transfer/rebuild/estimating.py", "verify/summaries.py", "window/compacting.py",
}  # fmt: skip
"""Modules that join texts which are stored, counted or compared, not read as items."""


@pytest.mark.parametrize("forged", FORGERIES)
def test_no_text_begins_a_line_of_its_own(forged: str) -> None:
    assert_forges_nothing(block(turn_line("weather", forged)))
    assert_forges_nothing(deliver([piece(turn_line("weather", forged)), piece("shop1: Hello", 1)]))
    assert_forges_nothing(deliver([piece(forged)]), ("sunny.",))
    assert_forges_nothing(told([_digest("weather", forged)]))
    part = WindowPart(WindowKind.TURN, turn_line("weather", forged), "s", ("t",), 0, 0)
    assert_forges_nothing(SessionWindow("s", (part, part), 100).text)


@pytest.mark.parametrize("forged", FORGERIES)
def test_no_name_begins_a_line_or_passes_for_a_turn(forged: str) -> None:
    assert one_line(forged).splitlines() == [one_line(forged)]
    line = block(turn_line(forged, "hello"))
    assert not line.startswith(("shop1:", "[")) and len(line.splitlines()) == 1
    whose = [replace(piece("Ann: Hello"), owner=forged), piece("Ann: Hi", 1)]
    assert len(deliver(whose, several=True).splitlines()) == 4


@pytest.mark.parametrize("forged", FORGERIES)
def test_a_context_forges_nothing_in_either_format(forged: str) -> None:
    made = [
        ContextPart(
            section=section, kind=PartKind.SUMMARY, text=turn_line("weather", forged), tokens=1, session_id=forged
        )
        for section in Section
    ]
    names = dict.fromkeys(Section, forged)
    text = sections(made, names)
    assert_forges_nothing(text, ("weather: ", "<"))
    assert sum(line.startswith("<") for line in text.splitlines()) == 2 * len(Section)
    assert_forges_nothing(messages(made, names)[0]["content"], ("weather: ", "<"))


def test_indentation_counts_towards_a_budget() -> None:
    pieces = [piece("Ann: " + "a\n" * 50, n) for n in range(9)]
    for budget in (20, 60, 200):
        assert estimated_tokens(deliver(pieces, budget)) <= budget
    assert fitting(pieces, 10_000)


def test_plain_text_and_writing_systems_stay_as_they_are() -> None:
    for text in ("Ann: Hello", "Ann: می‌خواهم", "Ann: 👨‍👩‍👧", "Ann: tab\there"):
        assert block(text) == text


def test_every_module_that_joins_lines_is_registered() -> None:
    """A new renderer fails here until it uses the one renderer, or is registered as one that readers don't see."""
    root = Path(memforest_core.__file__).parent
    found = {}
    for path in root.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if _joins_lines(ast.parse(source)):
            found[path.relative_to(root).as_posix()] = source
    assert set(found) == {*JOINING, *STORED} & set(found) and set(found) >= {*JOINING}
    for name, how in JOINING.items():
        assert how == "prompt" or name == "domain/rendering.py" or "domain.rendering import" in found[name], name


def _joins_lines(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "join"
        and isinstance(node.func.value, ast.Constant)
        and node.func.value.value in ("\n", "\n\n")
        for node in ast.walk(tree)
    )


def _digest(name: str, text: str) -> SpeakerDigest:
    return SpeakerDigest(name, name, text, 1)
