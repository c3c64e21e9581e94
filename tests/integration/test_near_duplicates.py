"""Opposites said on one day are two facts; one statement in two wordings is one, no matter who wrote the sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memforest_core.models.calls import Embedder
from tests.harness.model_answers import default_answer, last_user_text, wants_extraction
from tests.harness.model_server import ModelServer
from tests.harness.rendered_windows import parse_window
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.stack import Stack, stack
from tests.harness.wordings import DIFFERENT, SAME

OPPOSITES = [
    ("Visitors are permitted.", "Visitors are not permitted."),
    ("Kim's alarm is switched on.", "Kim's alarm is switched off."),
    ("Kim's left shoulder aches.", "Kim's right shoulder aches."),
    ("Kim walks the dog in the morning.", "Kim walks the dog in the evening."),
    ("The pool is open on Mondays.", "The pool is closed on Mondays."),
    ("The report is due daily.", "The report is due weekly."),
    ("The gate shuts before dusk.", "The gate shuts after dusk."),
    ("Ana owes Ben 20 euros.", "Ben owes Ana 20 euros."),
    ("Kim drinks tea with milk.", "Kim drinks tea without milk."),
    ("The lower shelf is loose.", "The upper shelf is loose."),
    *DIFFERENT["tense"][:6],
    *DIFFERENT["numbers"][:4],
]
SAYINGS = [*SAME["articles"][:4], *SAME["synonyms"][:10], *SAME["passive"][:3], *SAME["spelling"][1:5]]


def writes(body: Mapping[str, Any]) -> str:
    """A model that writes each turn down as a fact, word by word."""
    if not wants_extraction(body):
        return default_answer(body)
    turns = parse_window(last_user_text(body)).turns
    items = [{"turns": [turn.number], "text": turn.text, "entities": []} for turn in turns]
    return json.dumps({"items": items, "summaries": []})


def facts_of(running: Stack, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """For each pair, said in two sessions of its own owner, how many facts there are."""
    owners = {f"owner-{number}": pair for number, pair in enumerate(pairs)}
    for owner, pair in owners.items():
        for number, text in enumerate(pair):
            running.memory.enqueue(owner, f"s{number}", said(text, start=1_700_000_000 + 600 * number))
    running.drive()
    return {pair: len(running.memory.facts(owner).items) for owner, pair in owners.items()}


def test_opposites_by_rules_are_two_facts(pipeline: Stack) -> None:
    found = facts_of(pipeline, OPPOSITES)
    assert [pair for pair, facts in found.items() if facts < 2] == []


def test_of_sentences_that_a_model_writes_opposites_are_two_facts_and_rewordings_one(
    servers: SessionServers, tmp_path: Path, embedder: Embedder
) -> None:
    with ModelServer(answer=writes) as server:
        model = {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"}
        with stack(servers, tmp_path, embedder=embedder, llm={"extract": model, "summarize": model}) as running:
            reported = [pair for pair in OPPOSITES if "has lived" not in pair[0]]
            found = facts_of(running, [*reported, *SAYINGS])
    assert {pair: facts for pair, facts in found.items() if facts != (2 if pair in reported else 1)} == {}
