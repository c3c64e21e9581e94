"""What was said in German, Chinese or English is found by a question in that language, with and without the index."""

from __future__ import annotations

import pytest

from memforest_core.domain.evidence import RecallResult
from memforest_core.errors import IndexUnavailable
from tests.harness.stack import Stack

GERMAN = (
    ("2023-05-08T10:00:00Z", "Wir haben uns gestern drei alte Häuser am See angesehen."),
    ("2023-05-08T10:01:00Z", "Meine Schwester hat jetzt einen kleinen Hund, er heißt Bello."),
    ("2023-05-08T10:02:00Z", "Ich lerne seit zwei Wochen Geige bei einem alten Lehrer."),
    ("2023-05-08T10:03:00Z", "Im Büro war heute nicht viel los, und ich bin früh gegangen."),
    ("2023-05-08T10:04:00Z", "Am Wochenende backen wir wieder Brot mit den Nachbarn."),
)
CHINESE = (
    ("2023-07-02T09:00:00Z", "我上个月搬到了杭州，住在西湖旁边。"),
    ("2023-07-02T09:01:00Z", "我妹妹养了一只橘猫，叫小虎。"),
    ("2023-07-02T09:02:00Z", "周末我在学做川菜，麻婆豆腐最难。"),
    ("2023-07-02T09:03:00Z", "公司的新项目下周开始，我有点紧张。"),
    ("2023-07-02T09:04:00Z", "昨天下雨，我们没有去爬山。"),
)
ENGLISH = (
    ("2023-09-20T18:00:00Z", "I sold my old bicycle to a neighbour for eighty dollars."),
    ("2023-09-20T18:01:00Z", "My cousin Peter opened a bakery near the station."),
    ("2023-09-20T18:02:00Z", "I have been repairing clocks in the cellar all week."),
    ("2023-09-20T18:03:00Z", "The kitchen ceiling was painted light green."),
    ("2023-09-20T18:04:00Z", "We are flying to Lisbon in November."),
)
REQUESTED = [
    ("Welches Haus hat Anna angesehen?", GERMAN[0][1]),
    ("Wie heißt der Hund der Schwester?", GERMAN[1][1]),
    ("Bei welchem Lehrer lernt Anna Geige?", GERMAN[2][1]),
    ("搬到哪里了？", CHINESE[0][1]),
    ("猫叫什么名字？", CHINESE[1][1]),
    ("麻婆豆腐难做吗？", CHINESE[2][1]),
    ("Who sold a bicycle?", ENGLISH[0][1]),
    ("Which cousin has opened a bakery?", ENGLISH[1][1]),
    ("Where are clocks repaired?", ENGLISH[2][1]),
]


@pytest.fixture
def anna(pipeline: Stack) -> Stack:
    """One owner who speaks three languages, wholly processed."""
    for session, said in (("german", GERMAN), ("chinese", CHINESE), ("english", ENGLISH)):
        pipeline.memory.ingest(
            "anna",
            session,
            [
                {"id": f"t{at}", "role": "user", "name": "Anna", "content": text, "timestamp": when}
                for at, (when, text) in enumerate(said)
            ],
        )
    pipeline.drive()
    return pipeline


def first(result: RecallResult, n: int = 3) -> str:
    return "\n".join(piece.text for piece in result.evidence[:n])


def test_each_language_is_found(anna: Stack) -> None:
    missed = [
        requested
        for requested, gold in REQUESTED
        if gold not in first(anna.memory.recall("anna", requested, mode="embedding"))
    ]
    assert missed == []


def test_each_language_is_found_without_the_index(anna: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object) -> None:
        raise IndexUnavailable("away")

    monkeypatch.setattr(anna.services.index, "search", unavailable)
    results = [(anna.memory.recall("anna", requested), requested, gold) for requested, gold in REQUESTED]
    assert all(result.degraded for result, _, _ in results)
    assert [requested for result, requested, gold in results if gold not in first(result)] == []


def test_a_question_names_a_month_in_the_language_of_the_text(anna: Stack) -> None:
    found = anna.memory.recall("anna", "Was hat Anna im Mai 2023 mit ihrer Schwester erlebt?", mode="embedding")
    assert found.evidence[0].session_id == "german"
