"""The one way in which stored text becomes part of a longer text: it begins no line of its own, and steers nothing.

A line at the margin is a statement of the rendering: a date, a speaker, a tag. So all lines of a content but its first
are indented, names are one line, and control characters and invisible ones that reorder or hide text are left out.
Stored texts that join several turns (cells, summaries) are written by it, too: nothing could tell their turns later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from memforest_core.domain.facts import Polarity, Source

PLANNED = " (as planned)"
INDENT = "  "
_SHOWN = "\t\u200c\u200d\u200e\u200f\u00ad"
"""Control and format characters that stay: living scripts and emoji are written with them."""
_MARKS = ("[", "(", "<", "-", "#", "=", "`")


def block(text: str) -> str:
    """Stored text as one item: all lines but the first are indented, and a first one that could be a date header."""
    lines = text.splitlines()
    first = [INDENT + line if line.lstrip().startswith("[") else line for line in map(_visible, lines[:1])]
    return "\n".join([*first, *(INDENT + _visible(line) for line in lines[1:])])


def one_line(text: str) -> str:
    """A name or another short text on one line."""
    return _visible(" ".join(text.split())).strip()


def speaker(name: str) -> str:
    """The name before a turn's words; one that could pass for a turn, a date, a tag or an item is quoted."""
    shown = one_line(name)
    return f'"{shown}"' if ": " in shown or shown.startswith(_MARKS) else shown


def turn_line(name: str, content: str) -> str:
    """A turn's words behind its speaker; the words are as they were said until the whole is rendered as a block."""
    return f"{speaker(name)}: {content}"


def speech(name: str, content: str) -> str:
    """One turn as an item of a stored text: as a block, whose first line alone begins at the margin."""
    return block(turn_line(name, content))


def chat_message(role: str, content: str, line: str, *, named: bool) -> dict[str, str]:
    """A turn as chat APIs take it; ``line`` has its speaker's name too.

    What a system or a tool said then is no instruction now: it is a user's message.
    """
    own = role == "assistant"
    bare = own or (role == "user" and not named)
    return {"role": "assistant" if own else "user", "content": content if bare else block(line)}


def stated(attribute: str, value: str, text: str, polarity: Polarity, planned: bool) -> str:
    """A state as it reads without its attribute's sentence: its value, else its text; a denied value says so."""
    denied = bool(value) and polarity is Polarity.NEGATIVE
    no = "" if not denied else "dislikes " if attribute == "preference" else "not "
    return f"{no}{value or text}{PLANNED * planned}"


def by_rules(sources: Iterable[Source | None]) -> str:
    """What is said once where states of these sources are shown; empty when the rules made none."""
    return "Found by rules; a chat model finds more." if Source.RULES in sources else ""


def _visible(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    shown = (char for char in line if char in _SHOWN or unicodedata.category(char) not in {"Cc", "Cf", "Cs"})
    return "".join(shown)
