"""The informative part of an assistant's turns, without filler, for summaries that have both sides."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memforest_core.domain.cells import WindowTurn
from memforest_core.domain.extractive import summarize
from memforest_core.domain.rendering import one_line, speech
from memforest_core.domain.text import clean, sentences, terms
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.offline.english_text import names_in, pattern
from memforest_core.ingest.extract.offline.stance import is_chat, is_question, without_lead_in

MAX_REPLY = 400
"""Characters of the informative part of one turn."""
_FULL_TERMS = 3
"""A sentence of fewer terms, without a name or a number, is filler."""
_CALLED = re.compile(r",\s*[^\W\d_][\w'’-]*(?=[!.?]*$)")


def is_filler(sentence: str) -> bool:
    """Whether an assistant's sentence is courtesy, or a question that proposes nothing."""
    bare = _CALLED.sub("", without_lead_in(sentence).strip())
    if is_question(bare):
        return pattern("PROPOSES").match(bare) is None
    if is_chat(bare):
        return True
    concrete = any(char.isdigit() for char in bare) or bool(names_in(bare)) or bare.rstrip(".!").endswith(" it is")
    return not concrete and (pattern("COURTESY").match(bare) is not None or len(set(terms(bare))) < _FULL_TERMS)


def informative(text: str, known: str = "") -> str:
    """The sentences of an assistant's turn with information beyond what is ``known``, on one line."""
    had = set(terms(known))
    found = [each for each in sentences(clean(text)) if not is_filler(each) and not had.issuperset(terms(each))]
    return one_line(summarize(found, MAX_REPLY))


def speaking(name: str) -> str:
    """The assistant's name in a summary of both sides, where nothing else says that it is one."""
    return name if name.casefold() == Role.ASSISTANT.value else f"{Role.ASSISTANT.value} {name}"


def both_sides(summary: str, turns: Sequence[WindowTurn]) -> str:
    """A cell's summary, with a line of each of its assistant's turns that adds information. Without a ``summary`` what
    others said stays whole; empty when that is the cell's own text."""
    lines = [summary] if summary else []
    for turn in turns:
        if turn.role is not Role.ASSISTANT:
            lines += [] if summary else [speech(turn.speaker, turn.text)]
        elif reply := informative(turn.text, known=summary):
            lines.append(speech(speaking(turn.speaker), reply))
    text = "\n".join(lines)
    return "" if text == "\n".join(speech(turn.speaker, turn.text) for turn in turns) else text
