"""How many calls to a model a chat of two people costs: for digests, topics and profile together, a turn every six
minutes, with a context read for each answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memforest_core.assistant.profile import describing
from memforest_core.cli.demo_data import load_conversation
from memforest_core.models.calls import Embedder
from tests.harness.model_answers import default_answer, messages_of, wants_title
from tests.harness.model_server import ModelServer
from tests.harness.servers import SessionServers
from tests.harness.stack import stack

TURNS, MOST, PACE_MIN = 100, 5, 6


def answer(body: Mapping[str, Any]) -> str:
    """A model that answers everything in a few words."""
    shown = next(text for role, text in messages_of(body) if role == "user")
    if wants_title(body) or not shown.startswith("{"):
        return default_answer(body)
    document = json.loads(shown)
    if "speakers" in document:
        digests = [{"number": each["number"], "text": "A day of talk."} for each in document["speakers"]]
        return json.dumps({"digests": digests})
    if "states" in document:
        return json.dumps(
            {"sentences": [{"text": each["text"], "states": [each["number"]]} for each in document["states"]]}
        )
    return json.dumps({"summary": "A time of talk."})


def test_a_hundred_turns_of_two_people_take_five_calls_at_most(
    servers: SessionServers, tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = datetime.now(UTC).replace(hour=8, minute=0, second=0, microsecond=0) - timedelta(days=6)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock

    monkeypatch.setattr(describing, "datetime", Clock)
    with ModelServer(answer=answer) as server:
        one = {"model": "openai/test-model", "timeout_s": 5.0, "api_key": "key-1", "api_base": server.url}
        llm = dict.fromkeys(("profile", "summarize"), one)
        refresh = {"model_from_leaves": 128, "model_reads_last": False, "title_sizes": (20,)}
        with stack(servers, tmp_path, embedder=embedder, llm=llm, refresh=refresh) as running:
            calendar = replace(running.services.calendar, now=lambda: clock)
            running.services.__dict__["context"] = replace(running.services.context, days=calendar)
            turns = [turn for session in load_conversation() for turn in session.turns][:TURNS]
            for at, turn in enumerate(turns, 1):
                shown = {name: turn[name] for name in ("role", "name", "content")}
                running.memory.append("bob", "chat", shown | {"timestamp": clock})  # type: ignore[arg-type]
                if not at % 10:
                    running.drive()
                if turn["role"] == "user":
                    running.memory.context("bob", "chat", turn["content"])
                clock += timedelta(minutes=PACE_MIN)
        made = Counter(
            (call.body.get("response_format") or {}).get("json_schema", {}).get("name", "text")
            for call in server.requests
        )
    made.pop("window_summary", 0)  # of the running session, at most once in eight turns
    assert 0 < sum(made.values()) <= MOST, dict(made)
