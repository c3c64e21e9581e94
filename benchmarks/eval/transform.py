"""The same conversations about other people: what was tuned to names fails on them.

The names of the speakers, and every given name of a list, are replaced wherever they stand as a word: with a
possessive, in lower case for a speaker's name, in upper case. Each conversation has replacements of its own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session

_NAMES = """Agnes Albert Alma Anders Anita Arthur Astrid Barbara Beatrice Bernard Bianca Boris Camila Carmen Cecil Clara
Conrad Cornelia Dagmar Dario Delia Dimitri Dolores Edgar Edith Elena Elias Elsa Emil Enzo Esther Felix Fiona Flora
Frida Gavin Gerda Gideon Gloria Gregor Gustav Harriet Hector Helga Hugo Ida Ingrid Irene Isaac Ivan Jasper Johanna
Judith Julius Karin Kaspar Katrin Lars Leona Leopold Lorenzo Lucia Ludwig Magda Marcel Marta Matilda Maurice Mira
Mohammed Nadia Nestor Nikolai Noemi Olga Oscar Ottilie Otto Pablo Petra Philippa Quentin Rafael Ramona Regina
Reinhard Rita Roland Rosalind Rufus Sabine Salome Samir Selma Sigrid Silvia Stefan Svetlana Tamara Theodor Tobias
Ulrich Ursula Valentin Vera Viktor Wanda Werner Wilma Yusuf Yvonne Zelda Zoltan"""
GIVEN_NAMES = tuple(_NAMES.split())


def transformed(data: Dataset, seed: int) -> Dataset:
    """All conversations with other names; the same seed gives the same."""
    rng = random.Random(f"{seed}/transform")
    return tuple(_conversation(one, _renaming(one, rng)) for one in data)


def _conversation(one: Conversation, names: Callable[[str], str]) -> Conversation:
    sessions = tuple(_session(session, names) for session in one.sessions)
    return Conversation(one.id, sessions, tuple(_question(question, names) for question in one.questions))


def _session(session: Session, names: Callable[[str], str]) -> Session:
    turns = (replace(turn, speaker=names(turn.speaker), text=names(turn.text)) for turn in session.turns)
    return replace(session, turns=tuple(turns))


def _question(question: Question, names: Callable[[str], str]) -> Question:
    return replace(
        question,
        text=names(question.text),
        answer=names(question.answer),
        excerpts={turn: names(text) for turn, text in question.excerpts.items()},
    )


def _renaming(one: Conversation, rng: random.Random) -> Callable[[str], str]:
    """Replaces the names of one conversation."""
    speakers = {word for _, turn in one.turns() for word in re.findall(r"[^\W\d_]{2,}", turn.speaker)}
    speakers -= {turn.role for _, turn in one.turns()}
    texts = [turn.text for _, turn in one.turns()] + [question.text for question in one.questions]
    spoken = {word for text in texts for word in re.findall(r"[^\W\d_]+", text)}
    old = sorted(speakers | spoken.intersection(GIVEN_NAMES))
    free = [name for name in GIVEN_NAMES if name not in spoken and name not in speakers]
    new = dict(zip(old, rng.sample(free, len(old)), strict=True))
    return replacing(new, {name.lower() for name in speakers})


def replacing(new: Mapping[str, str], small: Collection[str]) -> Callable[[str], str]:
    """Puts other names in the place of those that stand in a text as a word, also in upper case.

    Those that are ``small`` when written in lower case are replaced in lower case too.
    """
    if not new:
        return lambda text: text
    forms = dict(new)
    for name, other in new.items():
        forms[name.upper()] = other.upper()
        if name.lower() in small:
            forms[name.lower()] = other.lower()
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) + r")\b")
    return lambda text: pattern.sub(lambda found: forms[found.group()], text)
