"""Stored text in a longer text can't be taken for another item of it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import memforest_core
from memforest_core.assistant.calendar.records import SpeakerDigest, speaker_lines
from memforest_core.assistant.condensing import Condenser, DatedText
from memforest_core.assistant.context.records import ContextPart, PartKind, Section, messages, sections
from memforest_core.assistant.conversation_window.records import PartKind as WindowKind
from memforest_core.assistant.conversation_window.records import SessionWindow, WindowPart
from memforest_core.domain.cells import Cutting, cut_cells
from memforest_core.domain.delivery import deliver, estimated_tokens, fitting
from memforest_core.domain.extractive import summarize
from memforest_core.domain.rendering import block, one_line, speech, turn_line
from tests.harness.builders import turn
from tests.harness.forgeries import FORGERIES, MARK, NAMES, inner, kinds, margin
from tests.unit.domain.test_delivery import piece

JOINING = {
    # rendered: every item goes through domain/rendering.py
    "assistant/calendar/records.py": "rendered",
    "assistant/context/records.py": "rendered",
    "domain/delivery.py": "rendered",
    "domain/rendering.py": "rendered",
    "service/mcp/tools.py": "rendered",
    "assistant/profile/describing.py": "rendered",
    "assistant/conversation_window/records.py": "rendered",
    "ingest/extract/offline/replies.py": "rendered",
    # prompt: a JSON line or an escaped line an item
    "ingest/extract/extraction_prompt.py": "prompt",
    "recall/answer.py": "prompt",
}
"""Modules that join stored texts with line ends for a reader."""
STORED = {
    "assistant/calendar/day_speakers.py", "assistant/condensing.py", "domain/cells.py", "domain/chat_messages.py", "domain/message_parts.py",
    "domain/extractive.py", "domain/pasted.py", "domain/temperature.py", "client/embedded/process.py", "lifecycle/erase/rows/words.py",
    "service/explorer/tree_pages.py", "ingest/formats/chats.py", "ingest/formats/datasets.py", "ingest/formats/fields.py", "ingest/formats/products.py", "ingest/formats/talks.py", "service/hook/events.py", "service/integrations/conversation.py", "service/integrations/langgraph.py", "service/integrations/llamaindex.py",
    "ingest/reduce/cli.py", "recall/score.py", "ingest/refresh/service.py", "store/functions/__init__.py",
    "lifecycle/merge/rows/content.py", "lifecycle/rebuild/planner.py", "lifecycle/verify/rows/snapshots.py",
}  # fmt: skip
"""Modules that join texts which are stored, counted or compared, not read as items."""


RENDERINGS: dict[str, Callable[[str], str]] = {
    "turns": lambda text: deliver([piece(turn_line("weather", text)), piece("shop1: Hello", 1)]),
    "facts": lambda text: deliver([piece(f"Ann: {text}"), piece("shop1 sings.", 1)]),
    "digests": lambda text: speaker_lines([_digest("weather", text), _digest("shop1", "Hello")]),
    "window": lambda text: SessionWindow("s", (_turn(text), _turn("Hello"), _turn(text)), 100).text,
    "context": lambda text: sections([_part(each, text) for each in Section], {}),
    "system message": lambda text: messages([_part(each, text) for each in Section], {})[0]["content"],
    "message of a tool": lambda text: messages([_said("weather", text), _said("shop1", text)], {})[0]["content"],
    "cell": lambda text: _cell(text),
    "joined cells": lambda text: f"{_cell(text)}\n{_cell('Hello')}",
    "summary in a window": lambda text: SessionWindow("s", (_turn("Hi"), _summary(_cell(text))), 100).text,
    "inside a summary": lambda text: inner(_shown(_summary(_cell(text))).removeprefix("(summary) ")),
    "picked": lambda text: summarize([_cell(text)], 10_000),
    "month": lambda text: _month(speaker_lines([_digest("weather", text)]), 10_000),
    "picked month": lambda text: _month(speaker_lines([_digest("weather", text + " more" * 99)]), 130),
    "state": lambda text: block(f"- {text}"),
}
"""Texts that readers see, by what is in them."""


@pytest.mark.parametrize("forged", FORGERIES)
@pytest.mark.parametrize("name", RENDERINGS)
def test_planted_words_change_nothing_at_the_margin(name: str, forged: str) -> None:
    """Given words that imitate other items, then a rendering has the items that it has of harmless words."""
    assert kinds(RENDERINGS[name](forged)) == kinds(RENDERINGS[name]("sunny."))


@pytest.mark.parametrize("forged", NAMES)
def test_planted_names_change_nothing_at_the_margin(forged: str) -> None:
    """Given names, ids and titles that imitate items, then none begins a line or passes for another item."""
    assert one_line(forged).splitlines() == [one_line(forged)]
    assert one_line(forged) == one_line(forged).strip()
    for rendered in (
        deliver([piece(turn_line(forged, "hello")), piece("shop1: Hi", 1)]),
        "[Monday 8 May 2023]\n" + speaker_lines([_digest(forged, "hello"), _digest("shop1", "Hi")]),
        "[Monday 8 May 2023]\n" + "\n".join((speech(forged, "hello"), speech("shop1", "Hi"))),
    ):
        header, said, other = kinds(rendered)
        assert (header, other) == ("[Monday 8 May 2023]", "shop1")
        assert said in ('"', "sunny", MARK)
    whose = [replace(piece("Ann: Hello"), owner=forged), piece("Ann: Hi", 1)]
    assert len(deliver(whose, several=True).splitlines()) == 4
    made = sections([_part(each, "hello", forged) for each in Section], dict.fromkeys(Section, forged))
    assert sum(line.startswith("<") for line in margin(made)) == 2 * len(Section)
    assert len(margin(made)) == 3 * len(Section)


@pytest.mark.parametrize("forged", FORGERIES)
def test_no_sentence_picked_from_a_turn_passes_for_another_turn(forged: str) -> None:
    texts = [_cell(forged), _cell("Hello"), _cell(forged + " I have " + "many more " * 40 + "things.")]
    for budget in (80, 120, 200):
        picked = summarize(texts, budget, budget // 4)
        assert set(kinds(picked)) <= {"weather", "shop1"}
        assert all(line.startswith(("  ", "weather: ", "shop1: Hi")) for line in picked.splitlines())


@pytest.mark.parametrize("forged", FORGERIES)
def test_no_turn_passes_for_a_summary(forged: str) -> None:
    """Given a turn whose words are what a summary shows, then only the summary is named as one."""
    assert _shown(_summary(_cell("sunny."))).startswith("(summary) weather: ")
    assert kinds(_shown(_turn(forged))) == ["weather"]
    assert speech("(summary) Ann", forged).startswith('"(summary) Ann": ')


def test_indentation_counts_towards_a_budget() -> None:
    items = [piece("Ann: " + "a\n" * 50, n) for n in range(9)]
    for budget in (20, 60, 200):
        assert estimated_tokens(deliver(items, budget)) <= budget
    assert fitting(items, 10_000)


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


def _turn(text: str) -> WindowPart:
    return WindowPart(WindowKind.TURN, turn_line("weather", text), "s", ("t",), 0, 0)


def _shown(part: WindowPart) -> str:
    return SessionWindow("s", (part,), 100).text


def _summary(text: str) -> WindowPart:
    return WindowPart(WindowKind.SUMMARY, text, "s", ("t",), 0, 0)


def _part(section: Section, text: str, name: str = "weather") -> ContextPart:
    return ContextPart(section=section, kind=PartKind.SUMMARY, text=turn_line(name, text), tokens=1, session_id=text)


def _said(name: str, text: str) -> ContextPart:
    return replace(_part(Section.WINDOW, text, name), kind=PartKind.TURN, role="tool", speaker=name)


def _cell(text: str) -> str:
    said = [turn(0, text, name="weather"), turn(1, "Hi", name="shop1")]
    return cut_cells(said, 0, Cutting(markers=()))[0].text


def _month(text: str, budget: int) -> str:
    texts = [DatedText("2 June", text), DatedText("1 June", "Ann: Hello")]
    return Condenser(None, budget).condense("June", texts, []).text


def _digest(name: str, text: str) -> SpeakerDigest:
    return SpeakerDigest(name, name, text, 1)
