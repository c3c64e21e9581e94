"""How well appended turns find their topics: pairwise precision and recall of "same topic" over labelled conversations.

    python -m benchmarks.topics DIRECTORY [--match 0.3]

``DIRECTORY`` has JSON files ``{"turns": [{"role", "speaker", "at", "text", "topic"}]}``. Each is appended by turns to
an owner of its own in an embedded memory. Prints one JSON object: for the product and for two baselines (one topic; a
new one after each pause of an hour) micro and macro precision, recall and F of pairs of turns of one conversation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Hashable, Sequence
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path

from memforest_core import MemForest
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.settings import Settings, load_settings


def counted(found: Sequence[Hashable], wanted: Sequence[Hashable]) -> tuple[int, int, int]:
    """Pairs of turns that share a topic in both, in what was found, and in what is wanted."""
    pairs = [
        (found[a] == found[b] and found[a] is not None, wanted[a] == wanted[b])
        for a, b in combinations(range(len(wanted)), 2)
    ]
    return sum(f and w for f, w in pairs), sum(f for f, _ in pairs), sum(w for _, w in pairs)


def scores(all_found: Sequence[Sequence[Hashable]], all_wanted: Sequence[Sequence[Hashable]]) -> dict[str, float]:
    """Precision, recall and F of all pairs, and their means over the conversations."""
    each = [counted(found, wanted) for found, wanted in zip(all_found, all_wanted, strict=True)]
    rows = [tuple(sum(column) for column in zip(*each, strict=True)), *each]
    three = [(both / max(1, f), both / max(1, w), 2 * both / max(1, f + w)) for both, f, w in rows]
    means = [statistics.mean(column) for column in zip(*three[1:], strict=True)]
    names = ("precision", "recall", "f", "macro_precision", "macro_recall", "macro_f")
    return {name: round(value, 3) for name, value in zip(names, (*three[0], *means), strict=True)} | {
        "pairs": rows[0][2]
    }


def stretches(turns: Sequence[dict[str, str]], pause: timedelta) -> list[int]:
    """A baseline: a new topic after each pause."""
    times = [datetime.fromisoformat(turn["at"]) for turn in turns]
    found = [0]
    for one, other in pairwise(times):
        found.append(found[-1] + (other - one > pause))
    return found


def appended(memory: MemForest, owner: str, turns: Sequence[dict[str, str]]) -> tuple[list[Hashable], list[float]]:
    """The topics of turns that are appended, and how long each took in milliseconds."""
    found: list[Hashable] = []
    took: list[float] = []
    for turn in turns:
        given: TurnInput = {"role": turn["role"], "content": turn["text"], "timestamp": turn["at"]}
        if turn.get("speaker"):
            given["name"] = turn["speaker"]
        begun = time.perf_counter()
        handle = memory.append(owner, None, given)
        took.append(1000 * (time.perf_counter() - begun))
        found.append(None if handle.topic is None else handle.topic.id)
    return found, took


def measured(directory: Path, settings: Settings) -> dict[str, object]:
    """All figures of a directory."""
    files = sorted(directory.glob("*.json"))
    talks = [json.loads(file.read_text(encoding="utf-8"))["turns"] for file in files]
    wanted = [[turn["topic"] for turn in turns] for turns in talks]
    with tempfile.TemporaryDirectory() as place, MemForest.embedded(place, settings) as memory:
        made = [appended(memory, file.stem, turns) for file, turns in zip(files, talks, strict=True)]
    found = [topics for topics, _ in made]
    return {
        "conversations": len(talks),
        "turns": sum(map(len, talks)),
        "match": settings.topics.match,
        "memforest": scores(found, wanted),
        "topics": [[len(set(f)), len(set(w))] for f, w in zip(found, wanted, strict=True)],
        "append_ms": round(statistics.median(ms for _, took in made for ms in took), 1),
        "one topic": scores([[0] * len(turns) for turns in talks], wanted),
        "pauses": scores([stretches(turns, timedelta(hours=1)) for turns in talks], wanted),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--match", type=float)
    parser.add_argument("--off", action="store_true", help="append without matching, to measure what that costs")
    given = parser.parse_args()
    settings = load_settings()
    topics = {"match_on_append": not given.off} | ({} if given.match is None else {"match": given.match})
    own = settings.topics.model_copy(update=topics)
    print(json.dumps(measured(given.directory, settings.model_copy(update={"topics": own})), indent=1))


if __name__ == "__main__":
    main()
