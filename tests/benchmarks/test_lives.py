"""The lives are whole, their questions are balanced over an open and a locked half, and the locked half stays shut."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.eval import lives, locomo, longmemeval
from benchmarks.eval.__main__ import OWN
from benchmarks.eval.dataset import Conversation, Dataset, Question

FILES = (lives.LIVES, lives.TALK, lives.TALK_LANGUAGES)
OPEN = tuple(one for path in FILES for one in lives.load(path))
LOCKED = tuple(one for path in FILES for one in lives.load(path, path.with_suffix(".locked")))


def questions(data: Dataset) -> list[tuple[Conversation, Question]]:
    return [(one, question) for one in data for question in one.questions]


def test_the_evidence_of_every_question_exists_and_is_in_order() -> None:
    for one, question in (*questions(OPEN), *questions(LOCKED)):
        order = [turn.id for _, turn in one.turns()]
        assert list(question.gold) == sorted(set(question.gold), key=order.index), question.id
        assert bool(question.gold) is question.answerable is question.measures_recall
        assert set(question.best) <= set(question.gold), question.id
        assert set(question.outdated) <= set(order) - set(question.gold), question.id


def test_a_paraphrase_has_the_type_and_the_evidence_of_its_question_in_the_same_half() -> None:
    for half in (OPEN, LOCKED):
        by_id = {question.id: question for _, question in questions(half)}
        pairs = [(one, by_id[one.paraphrase_of]) for one in by_id.values() if one.paraphrase_of]
        assert len(pairs) in {28, 32}
        for one, other in pairs:
            assert replace(one, id="", text="", paraphrase_of="") == replace(other, id="", text=""), one.id


def test_no_question_occurs_twice_or_in_both_halves() -> None:
    requested = [question for _, question in (*questions(OPEN), *questions(LOCKED))]
    assert len(requested) == 120 + 220 + 200
    assert len({" ".join(question.text.casefold().split()) for question in requested}) == len(requested)
    assert len({question.id for question in requested}) == len(requested)


def test_the_locked_file_shows_no_word_of_its_questions() -> None:
    whole = "".join(path.with_suffix(".locked").read_text(encoding="ascii") for path in FILES)
    opened = "".join(path.read_text(encoding="utf-8") for path in FILES)
    for _, question in questions(LOCKED):
        assert question.text not in whole
        assert question.text not in opened


def test_lives_are_read_as_they_were_packed(tmp_path: Path) -> None:
    """Given a life in two files with a half of its questions each, when packed, then both halves are read again."""
    life = json.loads(lives.TALK.read_text(encoding="utf-8"))["lives"][0]
    opened, locked, to = tmp_path / "open.json", tmp_path / "shut.json", tmp_path / "packed.json"
    opened.write_text(json.dumps(life | {"questions": life["questions"][:3]}))
    locked.write_text(json.dumps(life | {"questions": life["questions"][3:]}))
    lives.pack([opened], [locked], to)
    halves = lives.load(to), lives.load(to, to.with_suffix(".locked"))
    assert halves[0][0].questions + halves[1][0].questions == lives.load(lives.TALK)[0].questions


def test_the_evidence_of_the_own_conversations_exists() -> None:
    """The loader drops what it does not find: it drops nothing."""
    for raw, one in zip(json.loads(OWN.read_text(encoding="utf-8")), locomo.load(OWN), strict=True):
        assert [list(question.gold) for question in one.questions] == [list(each["evidence"]) for each in raw["qa"]]
        assert {question.category for question in one.questions} == set(locomo.CATEGORIES.values())


def test_a_question_in_longmemevals_format_is_a_conversation_in_the_order_of_time(tmp_path: Path) -> None:
    document = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Where do I keep the spare key?",
        "answer": "in the blue jug",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s2", "s1"],
        "haystack_dates": ["2023/05/21 (Sun) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "Plan my week."}],
            [{"role": "user", "content": "The spare key is in the blue jug.", "has_answer": True}],
        ],
        "answer_session_ids": ["s1"],
    }
    path = tmp_path / "data.json"
    path.write_text(json.dumps([document, document | {"question_id": "q2_abs"}]))
    one, other = longmemeval.load(path)
    assert (one.id, [session.id for session in one.sessions]) == ("q1", ["s1", "s2"])
    assert one.sessions[0].started_at == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert (one.questions[0].gold, one.questions[0].measures_recall) == (("s1:1",), True)
    assert not other.questions[0].measures_recall
