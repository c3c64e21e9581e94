"""``python -m benchmarks.languages``: one conversation in four languages; does recall beat plain BM25 in each?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.eval.baselines import Method
from benchmarks.eval.dataset import Conversation, Dataset, Question, Session, Turn
from benchmarks.eval.ingesting import remembered
from benchmarks.eval.measuring import delivered, found, mean, percent
from benchmarks.eval.running import Run
from benchmarks.eval.tokens import NAME, count_tokens
from benchmarks.eval.variants import MEMFOREST
from benchmarks.harness import Report, Row, parser
from memforest_core.settings import load_settings

DATA = Path(__file__).parent / "eval" / "data" / "languages.json"
LANGUAGES = ("en", "de", "es", "zh")
BM25, HYBRID = "bm25_turns", "hybrid_turns"
BUDGET = 500
MEASURED = (
    f"percent of the gold turns whose text is within {BUDGET} tokens of delivered text, mean over the questions;"
    " bm25: BM25 over turns with the terms of the product, packed and counted alike (a turn that shares no term is not"
    " in its list, so that it may fill less than the budget); hybrid: BM25 and vectors over turns, fused by"
    " rank; ratio: memforest by bm25;"
    " by_kind: the same of questions that ask for now, before, after, first or a fact, memforest and bm25;"
    " missed: questions of which memforest lacks a gold turn"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one method delivered of the gold turns of one question, in [0, 1]."""

    question: Question
    share: float


def conversation(document: Mapping[str, Any], language: str) -> Conversation:
    """The conversation and its questions in one of the languages; turns keep their ids, prefixed by the language."""
    names = document["names"]
    sessions = tuple(
        Session(
            f"{session['id']}-{language}",
            datetime.fromisoformat(session["started_at"]),
            tuple(
                Turn(
                    f"{language}-{turn['id']}",
                    names[turn["by"]][language],
                    turn[language],
                    by_owner=turn["by"] == document["owner"],
                )
                for turn in session["turns"]
            ),
        )
        for session in document["sessions"]
    )
    questions = tuple(
        Question(
            f"{language}-{question['id']}",
            question[language],
            question["asks"],
            tuple(f"{language}-{turn}" for turn in question["gold"]),
            answer="",
        )
        for question in document["questions"]
    )
    return Conversation(f"{document['owner']}-{language}", sessions, questions)


def conversations() -> Dataset:
    """The conversation in every language."""
    document = json.loads(DATA.read_text(encoding="utf-8"))
    return tuple(conversation(document, language) for language in LANGUAGES)


def asked(method: Method, of: Conversation) -> Iterator[Asked]:
    """Every question's share of gold turns that a method delivers."""
    texts = {turn.id: turn.text for _, turn in of.turns()}
    for question in of.questions:
        text = delivered(method.ask(of, question).items, BUDGET, count_tokens)
        yield Asked(question, mean(found([texts[turn] for turn in question.gold], text)))


def row(language: str, own: Sequence[Asked], plain: Sequence[Asked], hybrid: Sequence[Asked]) -> Row:
    """The figures of one language."""
    kinds = dict.fromkeys(one.question.category for one in own)
    ours, theirs = percent([one.share for one in own]), percent([one.share for one in plain])
    return {
        "language": language,
        "n": len(own),
        "memforest": ours,
        "bm25": theirs,
        "hybrid": percent([one.share for one in hybrid]),
        "ratio": round(ours / theirs, 3) if theirs else None,
        "by_kind": {
            kind: [percent([one.share for one in ones if one.question.category == kind]) for ones in (own, plain)]
            for kind in kinds
        },
        "missed": [one.question.text for one in own if one.share < 1.0],
    }


def main() -> None:
    """Run and print."""
    options = parser(__doc__ or "")
    options.add_argument("--home", type=Path, help="keep the ingested memory here and find it here the next time")
    arguments = options.parse_args()
    report = Report(arguments.seed, arguments.json)
    settings = load_settings()
    data = conversations()
    with remembered(data, settings, arguments.home) as memory:
        compared = [MEMFOREST, BM25, HYBRID]
        by_name = {method.name: method for method in Run.of(memory.memory.services, data, compared).methods}
        rows = [
            row(language, *(list(asked(by_name[name], one)) for name in compared))
            for language, one in zip(LANGUAGES, data, strict=True)
        ]
    measured = {"what": MEASURED, "embedding_model": settings.embedding.model, "tokenizer": NAME, "budget": BUDGET}
    report.end(rows, measured)


if __name__ == "__main__":
    main()
