"""What the model server says when nothing is broken: extraction answers, summaries, vectors."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from memforest_core.domain.cells import WindowTurn
from memforest_core.ingest.extract.extraction_prompt import SELF_QUOTED_CHARS

HASH_DIMENSION = 64
SUMMARY_CHARS = 200
TITLE_CHARS = 60
QUOTED_WORDS = 2

EmbeddingKind = Literal["hash", "minilm"]


def messages_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message of a chat request."""
    found = []
    for message in body.get("messages", []):
        content = message.get("content") or ""
        if not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content)
        found.append((str(message.get("role", "")), content))
    return found


def last_user_text(body: Mapping[str, Any]) -> str:
    """The text of the last user message, or ''."""
    return next((text for role, text in reversed(messages_of(body)) if role == "user"), "")


def wants_extraction(body: Mapping[str, Any]) -> bool:
    """Whether the call is an extraction: by its schema's name, or by its system prompt."""
    response_format = body.get("response_format") or {}
    if response_format.get("json_schema", {}).get("name") == "extraction":
        return True
    system = " ".join(text for role, text in messages_of(body) if role == "system")
    return "JSON" in system and '"items"' in system and '"summaries"' in system


def wants_title(body: Mapping[str, Any]) -> bool:
    """Whether the call requests the title of a scene."""
    return any(role == "system" and text.startswith("You name a topic") for role, text in messages_of(body))


def default_answer(body: Mapping[str, Any]) -> str:
    """An extraction's facts by the offline rules, a scene's title, or the first characters of the user's text."""
    if wants_title(body):
        texts = json.loads(last_user_text(body))["texts"] if '"texts"' in last_user_text(body) else ["Untitled"]
        return json.dumps({"title": f"About {texts[0][:TITLE_CHARS]}"})
    if not wants_extraction(body):
        return last_user_text(body)[:SUMMARY_CHARS]
    from memforest_core.ingest.extract.offline.proposing import propose
    from tests.harness.rendered_windows import parse_window

    rendered = [text for role, text in messages_of(body) if role == "user" and text.startswith("Memory of ")]
    window = parse_window(rendered[-1])
    turns = {turn.number: turn for turn in window.turns}
    answer = propose(window)
    return json.dumps(
        {
            "items": [sparing(item.model_dump(mode="json", exclude_defaults=True), turns) for item in answer.items],
            "summaries": [each.model_dump() for each in answer.summaries if each.cell > 0],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def sparing(item: dict[str, Any], turns: Mapping[int, WindowTurn]) -> dict[str, Any]:
    """An item as the prompt requests it: the ends of a quote of a long turn, no needless speaker or subject."""
    speaker = turns[item["turns"][0]].speaker
    subject = item.get("subject", "")
    shown = {name: value for name, value in item.items() if name not in ("speaker", "subject", "quote")}
    if item.get("speaker", "") != speaker:
        shown["speaker"] = item.get("speaker", "")
    if subject != speaker:
        shown["subject"] = subject
    words = item.get("quote", "").split()
    if words and max(len(turns[number].text) for number in item["turns"]) > SELF_QUOTED_CHARS:
        short = len(words) <= 2 * QUOTED_WORDS + 1
        shown["quote"] = " ".join(words if short else [*words[:QUOTED_WORDS], "...", *words[-QUOTED_WORDS:]])
    named = [name for name in item.get("entities", []) if name != subject]
    return shown | ({"entities": named} if "entities" in shown else {})


def wrong_schema() -> str:
    """JSON that no schema of ours accepts."""
    return json.dumps({"verdict": "fine", "note": [1, 2, 3]})


def wrong_types(answer: str) -> str:
    """The same keys, each with a value of another type."""
    try:
        document = json.loads(answer)
    except ValueError:
        document = {"items": [], "summaries": []}
    keys = document if isinstance(document, dict) and document else {"items": None}
    return json.dumps({key: "seven" if document.get(key) != "seven" else 7 for key in keys})


def hash_vector(text: str, dimension: int = HASH_DIMENSION) -> list[float]:
    """A unit vector of the text's words: equal texts are equal, shared words bring texts closer."""
    vector = [0.0] * dimension
    for word in re.findall(r"\w+", text.lower()) or [text]:
        digest = hashlib.sha256(word.encode()).digest()
        vector[int.from_bytes(digest[:4], "big") % dimension] += 1.0 if digest[4] & 1 else -1.0
    norm = math.sqrt(sum(x * x for x in vector))
    if norm == 0.0:
        vector[0] = norm = 1.0
    return [x / norm for x in vector]


@cache
def _minilm() -> Any:
    from memforest_core.models.embedders.minilm import MiniLmEmbedder

    return MiniLmEmbedder()


def vectors(texts: Sequence[str], kind: EmbeddingKind) -> list[list[float]]:
    """One vector per text, from hashed words or from the sentence model that comes in a wheel."""
    if kind == "hash":
        return [hash_vector(text) for text in texts]
    found: list[list[float]] = _minilm().embed(texts).vectors.tolist()
    return found
