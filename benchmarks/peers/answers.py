"""What the model server answers to each system's prompts: the same facts, in the shape that each expects.

The facts of a talk are those of our offline rules for every system, so that none learns more than another. Prompts are
recognized by sentences of mem0ai 2.2.1 and hindsight-api-slim 1.1.0; a newer version may word them differently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Origin
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.extraction_prompt import Item
from memforest_core.ingest.extract.offline.proposing import propose
from tests.harness.model_answers import default_answer, last_user_text, messages_of

OWNER = "User"
_TURN = re.compile(r"^(user|assistant): (.*)$", re.MULTILINE)
_MEM0 = re.compile(r"^## New Messages\n(.*?)\n\n## Observation Date$", re.MULTILINE | re.DOTALL)
_RETAINED = re.compile(r"^Extract facts from the following chunk\..*?^Content:\n(.*)", re.MULTILINE | re.DOTALL)
_CONSOLIDATED = re.compile(r"^### New facts\n\n(.*?)\n\n### Existing observations\n\n(.*)", re.MULTILINE | re.DOTALL)
_FACT = re.compile(r"^\[([0-9a-f-]{36})\] (.*?)(?: \((?:occurred_start|occurred_end|mentioned_at)=[^()]*\))?$")
_RECONCILED = re.compile(r"^\[NEW\] (.*)\n\[EXISTING\] (.*)$", re.MULTILINE)
_MEM0_SYSTEM = "You are a Memory Extractor"


class UnknownPrompt(ValueError):
    """A prompt of a system that is known here, without the part that is to be answered."""


def answer(body: Mapping[str, Any]) -> str:
    """The content of a chat completion; the default answer for our own prompts. Raises UnknownPrompt."""
    system = " ".join(text for role, text in messages_of(body) if role == "system")
    requested = last_user_text(body)
    if _MEM0_SYSTEM in system:
        return json.dumps({"memory": _mem0(requested)}, ensure_ascii=False)
    if found := _RETAINED.search(requested):
        return json.dumps({"facts": [_hindsight(item) for item in stated(found[1])]}, ensure_ascii=False)
    if found := _CONSOLIDATED.search(requested):
        return json.dumps(_observations(found[1], found[2]), ensure_ascii=False)
    if found := _RECONCILED.search(system + "\n" + requested):
        same = found[1].strip() == found[2].strip()
        return json.dumps({"action": "merge" if same else "keep", "text": found[2] if same else "", "reason": "text"})
    return default_answer(body)


def stated(talk: str) -> list[Item]:
    """The facts of a talk that is written as lines of "user: ..." and "assistant: ..."."""
    turns = tuple(
        WindowTurn(
            number=number,
            cell=(number + 1) // 2,
            ordinal=number,
            role=Role(role),
            speaker=OWNER if role == "user" else "Assistant",
            text=text,
            occurred_at=datetime.fromtimestamp(0, UTC),
        )
        for number, (role, text) in enumerate(_TURN.findall(talk), 1)
    )
    if not turns:
        return []
    return propose(Window(OWNER, "UTC", (), turns, turns[-1].cell)).items


def _mem0(requested: str) -> list[dict[str, str]]:
    found = _MEM0.search(requested)
    if found is None:
        raise UnknownPrompt("mem0's prompt has no new messages: read its prompts anew.")
    return [
        {"id": str(number), "text": item.text, "attributed_to": "assistant" if _advised(item) else "user"}
        for number, item in enumerate(stated(found[1]))
    ]


def _hindsight(item: Item) -> dict[str, Any]:
    return {
        "what": item.text,
        "when": item.when or "N/A",
        "where": "N/A",
        "who": "N/A",
        "why": "N/A",
        "fact_kind": "conversation",
        "fact_type": "assistant" if _advised(item) else "world",
        "entities": item.entities,
    }


def _observations(facts: str, existing: str) -> dict[str, Any]:
    """An observation for each new fact, or an update of the one with the same text."""
    known = {each["text"]: each["id"] for each in json.loads(existing)}
    creates, updates = [], []
    for found in filter(None, map(_FACT.match, facts.split("\n"))):
        fact, text = found[1], found[2]
        action = {"text": text, "source_fact_ids": [fact], "reason": "stated"}
        if text in known:
            updates.append({"observation_id": known[text], "current_text": text} | action)
        else:
            creates.append(action)
    return {"creates": creates, "updates": updates, "deletes": []}


def _advised(item: Item) -> bool:
    return item.origin is Origin.ASSISTANT
