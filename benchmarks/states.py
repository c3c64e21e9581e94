"""``python -m benchmarks.states``: are the current states of extraction without a model true, and which are missing?

Labelled chat turns go through the whole pipeline, each item under an owner of its own. Half of the labels are open; a
run over the locked half prints figures only.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from benchmarks.eval.states import ATTRIBUTES, RIGHT, Label, Score, Stated, outcome, pair_row, read, rows, score
from benchmarks.harness import Report, Row, parser, say
from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.recall.states import TimelineState

BEGINNING = datetime.fromisoformat("2025-03-03T10:00:00+00:00")
"""When a turn without a time of its own is said; a Monday."""
SPEAKER = "Kim"
FLUSH_TIMEOUT_S = 900.0
LATER = timedelta(days=30)
"""After the last session of a conversation: its current states are those of that day."""
_LABELLED_AS = {
    "employer": "job",
    "car": "possession",
    "phone": "possession",
    "hobby": "activity",
    "instrument": "activity",
}
MEASURED = (
    "labelled chat turns, each item with an owner of its own, offline extraction, states as of some weeks later."
    " stated: current states and current denials of 13 attributes; true: those that a label allows; precision: true by"
    " stated; plain: states that are said plainly; coverage: found by plain; unlabelled: states of other attributes, in"
    " no other figure. pairs: two sentences in two sessions of one day; apart: each has a fact of its own; merged: both"
    " have the same one; right: as the label says"
)


def sessions(owner: str, turns: Sequence[str | Mapping[str, str]]) -> dict[str, list[TurnInput]]:
    """The turns as a caller sends them, a session for each day. A turn without a speaker is the owner's."""
    days: dict[str, list[TurnInput]] = defaultdict(list)
    for number, raw in enumerate(turns):
        turn = {"text": raw} if isinstance(raw, str) else raw
        at = turn.get("at") or (BEGINNING + timedelta(minutes=number)).isoformat()
        name = turn.get("speaker", SPEAKER)
        sent: TurnInput = {"role": turn.get("role", "user"), "content": turn["text"], "timestamp": at}
        if sent["role"] == "user":
            sent |= {"name": name, "speaker_id": owner if name == SPEAKER else name.casefold()}
        days[at[:10]].append(sent)
    return days


def stated_of(memory: MemForest, owner: str, as_of: datetime) -> list[Stated]:
    """What the memory states of anybody: states that are current, and denials that nothing has ended."""
    found: list[Stated] = []
    cursor: str | None = None
    while True:
        page = memory.timeline(owner, entity="*", as_of=as_of, limit=1_000, cursor=cursor)
        found += [_stated(state) for state in page.states if state.current or _denied(state)]
        cursor = page.cursor
        if not page.truncated:
            return found


def _denied(state: TimelineState) -> bool:
    denies = state.polarity is Polarity.NEGATIVE and state.modality is Modality.ASSERTED
    return denies and state.change is Change.NONE and state.superseded_by is None


def _stated(state: TimelineState) -> Stated:
    quote = " / ".join(turn.text for turn in state.evidence)
    said_at = f"{state.mentioned_at:%Y-%m-%d}"
    attribute = "preference" if state.attribute.startswith("favorite ") else state.attribute
    named = _LABELLED_AS.get(attribute, attribute)
    return Stated(state.subject, named, state.value, state.polarity.value, quote, said_at)


def measure(memory: MemForest, items: Sequence[Mapping[str, Any]]) -> Iterator[Score]:
    """Ingest every item and score what is stated of it."""
    for item in items:
        for day, turns in sessions(item["id"], item["turns"]).items():
            memory.enqueue(item["id"], day, turns, display_name=SPEAKER)
    for item in items:
        memory.flush(item["id"], FLUSH_TIMEOUT_S)
    say("the items are ingested")
    for item in items:
        stated = stated_of(memory, item["id"], BEGINNING + timedelta(days=item["now_days"]))
        made = score(item["kind"], [Label.read(one) for one in item["states"]], stated)
        unlabelled = sum(one.attribute not in ATTRIBUTES for one in stated)
        yield replace(made, unlabelled=unlabelled)


def measure_pairs(memory: MemForest, label: str, pairs: Sequence[Sequence[str]]) -> list[str]:
    """Ingest the first sentences, then the second ones; the outcome of each pair."""
    owners = [f"{label}-{number}" for number in range(len(pairs))]
    for part, hour in enumerate((10, 11)):
        for owner, pair in zip(owners, pairs, strict=True):
            at = BEGINNING.replace(hour=hour).isoformat()
            [turns] = sessions(owner, [{"text": pair[part], "at": at}]).values()
            memory.enqueue(owner, str(part), turns, display_name=SPEAKER)
        for owner in owners:
            memory.flush(owner, FLUSH_TIMEOUT_S)
    return [outcome(*(_facts(memory, owner, str(part)) for part in range(2))) for owner in owners]


def _facts(memory: MemForest, owner: str, session: str) -> frozenset[object]:
    return frozenset(fact.id for fact in memory.facts(owner, session_id=session).items)


def wrong(item: Mapping[str, Any], one: Score) -> Row:
    """What is false and missing of an open item, with its text."""
    return {
        "id": item["id"],
        "kind": item["kind"],
        "turns": item["turns"],
        "false": [stated.to_dict() for stated in one.false],
        "missed": [
            f"{label.subjects[0]}: {label.attribute} {label.values[0]} ({label.polarity})" for label in one.missed
        ],
    }


def measure_half(locked: bool) -> tuple[list[Row], dict[str, object]]:
    """The figures of one half, and of the open one what is wrong."""
    data = read(locked)
    with tempfile.TemporaryDirectory(prefix="memforest-bench-") as scratch, MemForest.embedded(scratch) as memory:
        scores = list(measure(memory, data["states"]))
        outcomes = {label: measure_pairs(memory, label, data["pairs"][label]) for label in RIGHT}
    made = [*rows(scores), *(pair_row(label, each) for label, each in outcomes.items())]
    if locked:
        return made, {}
    items = [wrong(item, one) for item, one in zip(data["states"], scores, strict=True) if one.false or one.missed]
    pairs = {
        label: [pair for pair, each in zip(data["pairs"][label], found, strict=True) if each != RIGHT[label]]
        for label, found in outcomes.items()
    }
    return made, {"wrong": items, "wrong_pairs": pairs}


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--locked", action="store_true", help="the locked half: figures only")
    arguments = options.parse_args()
    report = Report(arguments.seed, arguments.json)
    made, details = measure_half(arguments.locked)
    for name, ones in details.items():
        say(f"{name}: {json.dumps(ones, ensure_ascii=False, indent=1)}")
    report.end(made, {"what": MEASURED, "half": "locked" if arguments.locked else "open", **details})


if __name__ == "__main__":
    main()
