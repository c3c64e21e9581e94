"""``python -m benchmarks.transitions``: do questions about what came before, after or first find their evidence?"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Report, Row, parser, say
from memforest_core.client.api import MemForest
from memforest_core.domain.chat_messages import TurnInput

FILES = Path(__file__).parent / "eval" / "data"
TRANSITIONS, CHANGES = "transitions", "changes"
"""Changes of five known kinds, and changes of anything by the words of the question."""
FIRST, FEWER = 5, 3
MEASURED = (
    f"own questions about what changes in a life; found: every evidence turn is among the first {FIRST} pieces; within:"
    f" the same of the first {FEWER}; first: the first piece is an evidence turn; the offline provider and the default"
    " settings otherwise"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and where the turns that answer it came; a rank counts from 1, None is not among the first 50."""

    owner: str
    topic: str
    question: str
    ranks: tuple[int | None, ...]

    @property
    def found(self) -> bool:
        """Whether all of its evidence is among the first pieces."""
        return self.within(FIRST)

    def within(self, pieces: int) -> bool:
        """Whether all of its evidence is among so many pieces."""
        return all(rank is not None and rank <= pieces for rank in self.ranks)

    @property
    def first(self) -> bool:
        """Whether the first piece is evidence."""
        return 1 in self.ranks


def store(memory: MemForest, people: list[dict[str, object]]) -> None:
    """Ingest every session and wait until it is summarized and indexed."""
    for person in people:
        owner = str(person["owner"])
        for session in person["sessions"]:  # type: ignore[attr-defined]
            turns: list[TurnInput] = [
                {
                    "id": turn["id"],
                    "role": "user",
                    "name": turn["speaker"],
                    "speaker_id": turn["speaker"].casefold(),
                    "content": turn["text"],
                    "timestamp": session["started_at"],
                }
                for turn in session["turns"]
            ]
            memory.ingest(owner, session["id"], turns)
    for person in people:
        memory.flush(str(person["owner"]))


def ask(memory: MemForest, people: list[dict[str, object]], mode: str) -> Iterator[Asked]:
    """The rank of each question's evidence."""
    for person in people:
        owner = str(person["owner"])
        for question in person["questions"]:  # type: ignore[attr-defined]
            evidence = memory.recall(owner, question["question"], k=50, mode=mode).evidence
            ranks = {turn: rank for rank, piece in reversed(list(enumerate(evidence, 1))) for turn in piece.turn_ids}
            found = tuple(ranks.get(turn) for turn in question["evidence"])
            yield Asked(owner, question["topic"], question["question"], found)


def people(data: str = TRANSITIONS) -> list[dict[str, object]]:
    """The project's own conversations with their questions."""
    loaded: list[dict[str, object]] = json.loads((FILES / f"{data}.json").read_text(encoding="utf-8"))
    return loaded


def rows(asked: list[Asked]) -> list[Row]:
    """A row for each topic and one for all."""
    topics: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        topics[one.topic].append(one)
        topics["all"].append(one)
    return [
        {
            "topic": topic,
            "n": len(ones),
            "found": sum(one.found for one in ones),
            "within": sum(one.within(FEWER) for one in ones),
            "first": sum(one.first for one in ones),
            "missed": [f"{one.question} {list(one.ranks)}" for one in ones if not one.found],
        }
        for topic, ones in topics.items()
    ]


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--mode", default="embedding")
    options.add_argument("--data", default=TRANSITIONS, choices=(TRANSITIONS, CHANGES))
    options.add_argument("--owners", nargs="*", help="ask about these people only")
    options.add_argument("--home", type=Path, help="a data directory that is kept and used again")
    arguments = options.parse_args()
    report = Report(arguments.seed, arguments.json)
    with tempfile.TemporaryDirectory(prefix="memforest-bench-") as scratch:
        home = arguments.home or Path(scratch) / "node"
        fresh = not home.exists()
        with MemForest.embedded(home) as memory:
            if fresh:
                store(memory, people(arguments.data))
                say("stored")
            chosen = [one for one in people(arguments.data) if one["owner"] in (arguments.owners or [one["owner"]])]
            asked = list(ask(memory, chosen, arguments.mode))
    report.end(rows(asked), {"what": MEASURED, "mode": arguments.mode, "data": arguments.data})


if __name__ == "__main__":
    main()
