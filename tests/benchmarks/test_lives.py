"""The three lives are whole, their questions are balanced over an open and a locked half, and the locked half stays shut."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.eval import lives
from benchmarks.eval.__main__ import load as load_named
from benchmarks.eval.__main__ import options, run
from benchmarks.eval.dataset import Conversation, Dataset, Question, WrongFile
from benchmarks.eval.tokens import count_tokens
from benchmarks.eval.transform import transformed
from memforest_core.domain.text import terms
from memforest_core.settings import load_settings

OPEN = lives.load()
LOCKED = lives.load(locked=lives.LOCKED)
PER_HALF = {
    "one fact": 4,
    "several sessions": 4,
    "when": 3,
    "change": 4,
    "how long, how often, how many": 2,
    "category words": 2,
    lives.NEVER_SAID: 1,
}
"""Questions of each type in each half of each life."""


def questions(data: Dataset) -> list[tuple[Conversation, Question]]:
    return [(one, question) for one in data for question in one.questions]


def test_there_are_three_long_lives_in_dated_sessions() -> None:
    assert [one.id for one in OPEN] == ["lives-1", "lives-2", "lives-3"]
    for one in OPEN:
        turns = list(one.turns())
        assert 25 <= len(one.sessions) <= 35
        assert 350 <= len(turns) <= 500
        assert one.sessions[-1].started_at - one.sessions[0].started_at > timedelta(days=547)
        assert [session.started_at for session in one.sessions] == sorted({one.started_at for one in one.sessions})
        # As it is delivered: with who speaks.
        assert 8_000 <= sum(count_tokens(f"{turn.speaker}: {turn.text}") for _, turn in turns) <= 15_000


def test_turns_are_numbered_within_their_session_and_only_an_assistant_answers_as_one() -> None:
    for one in OPEN:
        for number, session in enumerate(one.sessions, 1):
            assert [turn.id for turn in session.turns] == [f"D{number}:{n + 1}" for n in range(len(session.turns))]
            assert all(turn.text.strip() == turn.text for turn in session.turns)
    speakers = [{(turn.speaker, turn.role, turn.by_owner) for _, turn in one.turns()} for one in OPEN]
    assert [len(one) for one in speakers] == [2, 5, 2]
    assert speakers[2] == {("Rustam", "user", True), ("assistant", "assistant", False)}


def test_nearly_no_turn_is_said_twice() -> None:
    """What a template fills repeats itself; people repeat a "WHAT" now and then."""
    texts = [turn.text for one in OPEN for _, turn in one.turns()]
    assert len(texts) - len(set(texts)) < 10
    assert all(len(text) < 20 for text, count in Counter(texts).items() if count > 1)


def test_both_halves_are_about_the_same_lives() -> None:
    assert [one.sessions for one in OPEN] == [one.sessions for one in LOCKED]


def test_types_are_balanced_over_the_halves() -> None:
    assert tuple(PER_HALF) == lives.TYPES
    for one in (*OPEN, *LOCKED):
        assert Counter(question.category for question in one.questions) == PER_HALF


def test_the_evidence_of_every_question_exists_and_stands_in_order() -> None:
    for one, question in (*questions(OPEN), *questions(LOCKED)):
        order = [turn.id for _, turn in one.turns()]
        assert list(question.gold) == sorted(set(question.gold), key=order.index), question.id
        assert bool(question.gold) is question.answerable is question.measures_recall


def test_what_is_asked_over_several_sessions_has_evidence_in_several() -> None:
    for data in (OPEN, LOCKED):
        lists = [question for _, question in questions(data) if question.category == "several sessions"]
        assert all(len({turn.split(":")[0] for turn in question.gold}) >= 2 for question in lists)


def test_no_question_stands_twice_or_in_both_halves() -> None:
    asked = [question for _, question in (*questions(OPEN), *questions(LOCKED))]
    assert len(asked) == 120
    assert len({" ".join(question.text.casefold().split()) for question in asked}) == 120
    assert len({question.id for question in asked}) == 120


def test_questions_are_asked_in_words_of_their_own() -> None:
    shares = []
    for one, question in (*questions(OPEN), *questions(LOCKED)):
        texts = {turn.id: turn.text for _, turn in one.turns()}
        gold = set(terms(" ".join(texts[id_] for id_ in question.gold)))
        if gold:
            shares.append(len(set(terms(question.text)) & gold) / len(set(terms(question.text))))
    assert sum(shares) / len(shares) < 0.35


def test_the_locked_file_shows_no_word_of_its_questions() -> None:
    whole, opened = lives.LOCKED.read_text(encoding="ascii"), lives.LIVES.read_text(encoding="utf-8")
    for _, question in questions(LOCKED):
        assert question.text not in whole
        assert question.text not in opened


def test_names_and_dates_of_the_lives_can_be_replaced() -> None:
    changed = transformed(OPEN, 7)
    assert [one.id for one in changed] == [one.id for one in OPEN]
    spoken = {turn.speaker for one in changed for _, turn in one.turns()}
    assert not spoken & {"Thandeka", "Pekka", "Filipa", "Rustam"}
    assert "assistant" in spoken


def test_the_lives_bring_their_files_and_the_locked_half_no_answers(tmp_path: Path) -> None:
    made = options()
    assert load_named(made.parse_args(["--dataset", "lives"])) == OPEN
    assert load_named(made.parse_args(["--dataset", "lives-locked"])) == LOCKED
    for name in ("lives", "lives-locked"):
        with pytest.raises(WrongFile, match="Leave out --path"):
            load_named(made.parse_args(["--dataset", name, "--path", str(tmp_path)]))
    asked = made.parse_args(["--dataset", "lives-locked", "--answers", "1", "--out", str(tmp_path / "out")])
    with pytest.raises(WrongFile, match="Leave out --answers"):
        run(asked, load_settings())
    assert not (tmp_path / "out").exists()


def test_a_wrong_file_is_refused_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "some.locked"
    with pytest.raises(WrongFile, match="cannot be read"):
        lives.load(locked=path)
    for content in ("first line\nWhat is asked?", "first line\n" + "QUJD"):
        path.write_text(content, encoding="ascii")
        with pytest.raises(WrongFile, match=r"some\.locked holds no locked questions\.$"):
            lives.load(locked=path)
    other = tmp_path / "other.json"
    other.write_text('{"lives": [{"id": "a", "sessions": []}]}', encoding="utf-8")
    with pytest.raises(WrongFile, match=r"not in the format of the lives \(KeyError\)"):
        lives.load(other)
