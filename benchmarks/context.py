"""How long a context takes as a forest grows, what is in it, and how often a chat asks a model for it."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import sqlalchemy as sa

from benchmarks.eval import lives, locomo
from benchmarks.eval.__main__ import OWN
from benchmarks.eval.ingesting import remembered
from benchmarks.eval.measuring import mean, percent, shares
from benchmarks.harness import Database, Report, Row, database, parser, say
from benchmarks.recall_latency.__main__ import WARM_UP
from benchmarks.recall_latency.filling import fill
from benchmarks.recall_latency.measuring import collection
from benchmarks.recall_latency.world import SESSION_TURNS, TENANT, StoredVectors, World
from memforest_core.assistant.calendar.condensing import Condenser
from memforest_core.assistant.calendar.digesting import Digester
from memforest_core.assistant.calendar.service import CalendarService
from memforest_core.assistant.context.portraits import Portraits
from memforest_core.assistant.context.result import Context
from memforest_core.assistant.context.service import LEAST_PIECE, ContextService
from memforest_core.assistant.conversation_window.compacting import Compactor
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.assistant.profile.checked_calls import CheckedCalls
from memforest_core.assistant.profile.describing import Describer
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.ids import TenantId
from memforest_core.models.opening import open_embedder
from memforest_core.recall.rows.reading import RecallStore
from memforest_core.recall.service import RecallService
from memforest_core.settings import (
    CalendarSettings,
    ContextSettings,
    EmbeddingSettings,
    ProfileSettings,
    RecallSettings,
    WindowSettings,
    load_settings,
)
from memforest_core.store.engine import Engine
from tests.harness.model_answers import last_user_text
from tests.harness.model_server import ModelServer
from tests.harness.servers import session_servers
from tests.harness.stack import Stack, make_template, stack

SIZES = (1_000, 10_000)
CONTEXTS = 200
MAX_TOKENS = ContextSettings().max_tokens
LAST_TURNS = 4
"""Of the session that runs: a short one."""
OWNER = "owner-0"
TURNS = 100
"""Of the chat whose calls are counted."""
REFRESHED = 10
"""Turns after which trees are refreshed."""
COUNTED = ("profile", "today", "week", "title")
EXTRA = 3
"""Statements that a context may run beside its recall, those that begin a transaction not counted."""
CALLS = 5.0
"""Calls to a model that 100 turns of chat may make for digests, titles of topics and profile together."""
KINDS = {'{"about"': "profile", '{"day"': "today", '{"when"': "week", '{"so_far"': "window", '{"domain"': "title"}
"""What a call is for, by how its document begins."""
MEASURED = (
    "milliseconds of ContextService.context, max_tokens 2,000, with a question, without the embedding of it, one at a"
    " time, for the owner of one forest whose profile is kept and whose running session has four turns; real Postgres"
    " and the Qdrant engine in this process. extra_statements: those beside the recall, without those that begin a"
    " transaction. chat: calls to a model over HTTP while turns of a day are appended, extracted offline and a context"
    " is made after each, all within an hour; another hour may bring one more profile and one more digest of the day."
    " Trees are refreshed after every tenth turn, without the calls for their summaries; the window's calls are counted"
    " apart"
)
ANSWERED = (
    "share: percent of the text of a question's gold turns that is in the context of context.max_tokens, mean over"
    " turns and questions, counted as benchmarks.eval counts it; tokens, pieces of evidence, wall and processor time of"
    " one context at the median"
)


def contexts(engine: Engine, recall: RecallService) -> ContextService:
    """The service, without a model."""
    windows, settings = WindowSettings(), ContextSettings()
    describer = Describer(engine, CheckedCalls(engine), ProfileSettings())
    window = WindowService(engine, windows, Compactor(None, windows.summary_chars))
    portraits = Portraits(engine, describer, timedelta(seconds=settings.profile_every_s))
    days = CalendarSettings()
    calendar = CalendarService(engine, days, Digester(None, days), Condenser(None, days))
    return ContextService(engine, settings, windows, portraits, window, recall, days=calendar)


@contextmanager
def statements(engine: sa.Engine) -> Iterator[list[str]]:
    """The statements that are run, without those that begin a transaction."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "set_config('memforest.tenant'" not in statement:
            seen.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(engine, "before_cursor_execute", note)


@dataclass(frozen=True, slots=True)
class Measured:
    """One context."""

    context: Context
    context_ms: float
    recall_ms: float


def measure(running: Database, facts: int, options: argparse.Namespace) -> Row:
    """Fill a forest and make contexts of it."""
    with collection() as index:
        world = World(options.seed)
        said = fill(running, index, world, OWNER, facts + LAST_TURNS, options.seed)
        running.tidy()
        # Drawn first, so that nothing of the filling is left in memory when contexts are measured.
        asked = [world.question(said) for _ in range(WARM_UP + options.contexts)]
        session = f"session-{facts // SESSION_TURNS}"
        recall = RecallService(
            RecallStore(running.service), index, StoredVectors(asked), RecallSettings(), pointers=True
        )
        service = contexts(running.service, recall)
        found = [measured(service, recall, session, one.text) for one in asked][WARM_UP:]
        extra = [extra_statements(running.service, service, recall, session, one.text) for one in asked[:5]]
    return row(facts, options.seed, found, max(extra))


def measured(service: ContextService, recall: RecallService, session: str, question: str) -> Measured:
    """One context, and what a recall of the same question takes alone."""
    begun = time.perf_counter()
    recall.recall(TENANT, OWNER, question, MAX_TOKENS // LEAST_PIECE, max_tokens=MAX_TOKENS)
    recalled = time.perf_counter()
    context = service.context(TENANT, OWNER, session, question)
    ended = time.perf_counter()
    if context.degraded or not all(context.section(name) for name in ("evidence", "window", "profile")):
        raise SystemExit(f"The context of {question!r} is not whole: {context.degraded or context.left_out[:3]}")
    return Measured(context, 1e3 * (ended - recalled), 1e3 * (recalled - begun))


def extra_statements(
    engine: Engine, service: ContextService, recall: RecallService, session: str, question: str
) -> int:
    """Statements that a context runs beside its recall."""
    with statements(engine) as alone:
        recall.recall(TENANT, OWNER, question, MAX_TOKENS // LEAST_PIECE, max_tokens=MAX_TOKENS)
    with statements(engine) as seen:
        service.context(TENANT, OWNER, session, question)
    return len(seen) - len(alone)


def answers(name: str, home: Path) -> Row:
    """How much of the gold turns' text of a data set is in a context of each question, in a session without a turn.

    ``name`` is that of a set that is shipped, or a file in LoCoMo's form.
    """
    data = lives.load() if name == "lives" else locomo.load(OWN if name == "own" else Path(name))
    found = []
    with remembered(data, load_settings(), home) as node:
        services = node.memory.services
        tenant = TenantId(services.settings.tenant)
        for one in data:
            for question in one.questions:
                if question.measures_recall:
                    begun, spent = time.perf_counter(), time.process_time()
                    made = services.context.context(tenant, one.id, "new", question.text)
                    times = (time.perf_counter() - begun, time.process_time() - spent)
                    text = "\n".join(part.text for part in made.parts)
                    found.append((mean(shares(one.evidence(question), text)), made, times))
    return {
        "data": Path(name).name,
        "n": len(found),
        "share": percent([share for share, _, _ in found]),
        "tokens": median(made.tokens for _, made, _ in found),
        "evidence": median(len(made.section("evidence")) for _, made, _ in found),
        "p50_ms": round(1e3 * median(times[0] for *_, times in found), 2),
        "cpu_p50_ms": round(1e3 * median(times[1] for *_, times in found), 2),
    }


def row(facts: int, seed: int, found: Sequence[Measured], extra: int) -> Row:
    """The figures of one size."""
    times = [each.context_ms for each in found]
    tokens = [each.context.section_tokens for each in found]
    sections = sorted({section for each in tokens for section in each})
    return {
        "facts": facts,
        "n": len(found),
        "seed": seed,
        "p50_ms": round(median(times), 2),
        "p95_ms": round(quantiles(times, n=20)[-1], 2),
        "recall_p50_ms": round(median(each.recall_ms for each in found), 2),
        "extra_statements": extra,
        "tokens": median(each.context.tokens for each in found),
        "section_tokens": {section.value: median(each.get(section, 0) for each in tokens) for section in sections},
    }


class Counted:
    """A model that describes and summarizes, and counts what it was asked for."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self, body: Mapping[str, Any]) -> str:
        text = last_user_text(body)
        kind = next((kind for begins, kind in KINDS.items() if text.startswith(begins)), "other")
        self.calls[kind] += 1
        if kind == "profile":
            states = json.loads(text)["states"]
            return json.dumps({"sentences": [{"text": each["text"], "states": [each["number"]]} for each in states]})
        if kind == "today":
            people = json.loads(text)["speakers"]
            return json.dumps({"digests": [{"number": each["number"], "text": "Talked of towns."} for each in people]})
        if kind == "title":
            return json.dumps({"title": "Towns"})
        return json.dumps({"summary": "They went on talking. " * 20})


def chat_calls(turns: int, seed: int) -> Row:
    """Let two talk, make a context after each turn, and count the calls."""
    model, drawn = Counted(), random.Random(seed)
    with (
        ModelServer(answer=model) as server,
        session_servers() as servers,
        tempfile.TemporaryDirectory(prefix="memforest-bench-context-") as directory,
    ):
        make_template(servers)
        of_model = {"model": "openai/test-model", "api_base": server.url, "api_key": "key-1"}
        llm = {"profile": of_model, "summarize": of_model}
        with stack(servers, Path(directory), embedder=open_embedder(EmbeddingSettings()), llm=llm) as running:
            began = time.time()
            for number in range(turns):
                talk(running, number, began, drawn)
                while running.runtime.extract() + running.runtime.reduce():
                    pass
                if number % REFRESHED == REFRESHED - 1:
                    running.drive()
                running.memory.context("bob", "chat")
    ours = sum(count for kind, count in model.calls.items() if kind in COUNTED)
    return {"turns": turns, "calls": dict(model.calls), "calls_per_100_turns": 100 * ours / turns}


def talk(running: Stack, number: int, began: float, drawn: random.Random) -> None:
    """One turn; every fourth states something new of the speaker."""
    town = drawn.choice(("Oslo", "Turin", "Porto", "Ghent", "Leeds"))
    said = (
        f"I moved to {town}.",
        "How do you like it?",
        f"We walked through {town} until the lamps were lit.",
        "Nice.",
    )
    role, name = ("assistant", "Guide") if number % 2 else ("user", "Bob")
    turn: TurnInput = {"role": role, "name": name, "content": said[number % 4], "timestamp": began + 0.001 * number}
    running.memory.append("bob", "chat", turn, close=number % 2 == 1)


def main() -> None:
    """Run from the command line."""
    options = parser(__doc__ or "")
    options.add_argument(
        "--sizes",
        type=lambda text: [int(part) for part in text.split(",")],
        default=SIZES,
        metavar="N,N",
        help="facts in the forest, multiples of 20 (default: 1000,10000)",
    )
    options.add_argument("--contexts", type=int, default=CONTEXTS, metavar="N", help="contexts measured per size")
    options.add_argument("--turns", type=int, default=TURNS, metavar="N", help="turns of the chat, 0 for none")
    options.add_argument(
        "--answers",
        metavar="SET",
        help="instead: the share of the gold turns' text in the contexts of own, lives or a file in LoCoMo's form",
    )
    options.add_argument("--home", type=Path, help="with --answers: keep the ingested memory here, or find it here")
    chosen = options.parse_args()
    report = Report(chosen.seed, chosen.json)
    if chosen.answers:
        with tempfile.TemporaryDirectory(prefix="memforest-bench-") as scratch:
            report.end([answers(chosen.answers, chosen.home or Path(scratch))], {"what": ANSWERED})
        return
    rows: list[Row] = []
    for facts in chosen.sizes:
        with database() as running:
            rows.append(measure(running, facts, chosen))
        say("  ".join(f"{name}={value}" for name, value in rows[-1].items()))
    calls = chat_calls(chosen.turns, chosen.seed) if chosen.turns else {}
    report.end(rows, {"what": MEASURED, "warm_up": WARM_UP, "chat": calls, "most_calls": CALLS, "most_extra": EXTRA})
    kept = all(int(str(each["extra_statements"])) <= EXTRA for each in rows)
    sys.exit(0 if kept and float(str(calls.get("calls_per_100_turns", 0))) <= CALLS else 1)


if __name__ == "__main__":
    main()
