"""Tokens that building a memory costs a model over HTTP: by step, prompt and schema and answer, against the talk.

The model server answers plausibly: facts by the offline rules, as sparingly as the prompt asks for; summaries and
titles picked from what they are made of. ``once`` enqueues all sessions and waits at the end; ``each`` waits for the
summaries of every session before the next one comes.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.eval import locomo, longmemeval
from benchmarks.eval.__main__ import OWN
from benchmarks.eval.dataset import Dataset
from benchmarks.eval.ingesting import FLUSH_TIMEOUT_S, payload
from benchmarks.harness import Report, Row, parser, say
from memforest_core.client.api import MemForest
from memforest_core.domain.extractive import summarize
from memforest_core.settings import load_settings
from tests.harness.model_answers import default_answer, last_user_text, messages_of, wants_title
from tests.harness.model_server import ModelServer
from tests.harness.provider_tokens import NAME, count_tokens

MEASURED = (
    f"tokens by {NAME}: prompt are the messages, schema the JSON schema of the answer, cached what the beginning of a"
    " prompt has in common with the call of its step before it, in steps of 128 from 1,024 on, as providers count;"
    " times_talk is prompt, schema and completion together against the tokens of what was said, each turn as"
    " 'speaker: text'"
)
CACHED_FROM, CACHED_STEP = 1_024, 128
SUMMARY_CHARS = 600


@dataclass(slots=True)
class Counts:
    """What the calls of one step came to, in tokens."""

    calls: int = 0
    prompt: int = 0
    schema: int = 0
    completion: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """All that a provider counts."""
        return self.prompt + self.schema + self.completion


@dataclass(slots=True)
class Counting:
    """A model that answers plausibly and counts what it is asked. One event loop calls it."""

    by_step: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    _before: dict[str, str] = field(default_factory=dict)

    def answer(self, body: Mapping[str, Any]) -> str:
        """The answer to one request."""
        schema = (body.get("response_format") or {}).get("json_schema")
        step = schema["name"] if schema else "summary"
        text = _answer(step, body)
        prompt = "\n".join(content for _, content in messages_of(body))
        counts = self.by_step[step]
        counts.calls += 1
        counts.prompt += sum(count_tokens(content) for _, content in messages_of(body))
        counts.schema += count_tokens(json.dumps(schema["schema"], separators=(",", ":"))) if schema else 0
        counts.completion += count_tokens(text)
        shared = count_tokens(_common(prompt, self._before.get(step, "")))
        counts.cached += shared // CACHED_STEP * CACHED_STEP if shared >= CACHED_FROM else 0
        self._before[step] = prompt
        return text


def _common(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _answer(step: str, body: Mapping[str, Any]) -> str:
    if step == "extraction" or wants_title(body):
        return default_answer(body)
    return summarize([str(text) for text in json.loads(last_user_text(body))["children"]], SUMMARY_CHARS)


def build(data: Dataset, *, each: bool) -> Counting:
    """Remember everything, and count."""
    counting = Counting()
    with (
        ModelServer(answer=counting.answer) as server,
        tempfile.TemporaryDirectory(prefix="memforest-bench-") as directory,
    ):
        model = {"model": "openai/test-model", "api_base": server.url, "api_key": "test"}
        settings = load_settings(llm={"extract": model, "summarize": model})
        with MemForest.embedded(Path(directory), settings) as memory:
            for one in data:
                for session in one.sessions:
                    memory.ingest(
                        one.id,
                        session.id,
                        payload(one, session),
                        started_at=session.started_at.isoformat(),
                        wait="summaries" if each else "none",
                        timeout_s=FLUSH_TIMEOUT_S,
                    )
                say(f"accepted {one.id}")
            for one in data:
                memory.flush(one.id, FLUSH_TIMEOUT_S)
            facts = sum(memory.client.status(one.id, s.id).facts for one in data for s in one.sessions)
            say(f"{facts} facts")
    return counting


def rows(mode: str, counting: Counting, talk: int, turns: int) -> list[Row]:
    """A row for each step, and one for all."""
    whole = Counts()
    for counts in counting.by_step.values():
        for name in ("calls", "prompt", "schema", "completion", "cached"):
            setattr(whole, name, getattr(whole, name) + getattr(counts, name))
    return [
        {
            "mode": mode,
            "step": step,
            "calls": counts.calls,
            "prompt": counts.prompt,
            "schema": counts.schema,
            "completion": counts.completion,
            "cached": counts.cached,
            "per_100_turns": round(100 * counts.total / turns),
            "times_talk": round(counts.total / talk, 2),
        }
        for step, counts in [*sorted(counting.by_step.items()), ("all", whole)]
    ]


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--dataset", choices=("locomo", "longmemeval"), default="locomo", help="format of the file")
    options.add_argument("--path", type=Path, default=OWN, help="the file (default: the one of the repository)")
    options.add_argument("--conversations", type=int, help="how many of it (default: all)")
    options.add_argument("--mode", choices=("once", "each", "both"), default="both", help="(default: %(default)s)")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    load = locomo.load if chosen.dataset == "locomo" else longmemeval.load
    data = load(chosen.path)[: chosen.conversations]
    said = [turn for one in data for _, turn in one.turns()]
    talk = sum(count_tokens(f"{turn.speaker}: {turn.text}") for turn in said)
    found: list[Row] = []
    for mode in ("once", "each"):
        if chosen.mode in (mode, "both"):
            started = time.monotonic()
            found += rows(mode, build(data, each=mode == "each"), talk, len(said))
            say(f"{mode}: {time.monotonic() - started:.0f} s")
    report.end(found, {"what": MEASURED, "file": chosen.path.name, "turns": len(said), "talk": talk})


if __name__ == "__main__":
    main()
