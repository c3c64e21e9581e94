"""From the first person to the third, so that a fact is understood alone."""

from __future__ import annotations

import re

from memforest_core.ingest.extract.offline.english_text import is_kind, lists, pattern

_QUOTED = re.compile(r"""(["“„«»‹][^"“”„«»‹›]{1,400}["”“«»›]|(?<!\w)'(?=[A-Z])(?:[^'\n]|'(?=\w)){3,400}'(?!\w))""")
_IRREGULAR = {
    "am": "is",
    "have": "has",
    "haven't": "hasn't",
    "do": "does",
    "don't": "doesn't",
    "ain't": "isn't",
    "go": "goes",
}


_SHORT_FORMS = dict(pair.split("=") for pair in lists()["short form"])
"""What chats shorten or misspell."""
_SHORTENED = re.compile(rf"(?<![\w’'.,/@#-])(?:{'|'.join(map(re.escape, _SHORT_FORMS))})(?![\w’'/@-])", re.IGNORECASE)


def spelled_out(sentence: str) -> str:
    """A sentence as typed in a chat with what it shortens and misspells written out ("im" becomes "I'm")."""
    full = _SHORTENED.sub(
        lambda found: found.group() if found.group().isupper() else _SHORT_FORMS[found.group().casefold()], sentence
    )
    return pattern("WOULD").sub("I'd", full)


def verb_for_one(verb: str) -> str:
    """The form of an English verb after a name: ``live`` gives ``lives``, ``moved`` and what is no known verb stay."""
    folded = verb.replace("’", "'")
    if folded in _IRREGULAR:
        return _IRREGULAR[folded]
    if not is_kind(folded, "verb") or (folded.endswith("s") and folded not in {"miss", "pass", "guess", "discuss"}):
        return verb
    if folded.endswith(("s", "x", "z", "ch", "sh")):
        return f"{verb}es"
    if folded.endswith("y") and folded[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _auxiliary(short: str, rest: str, plural: bool) -> str:
    match short[1:]:
        case "m":
            return " is"
        case "re":
            return " are"
        case "ve":
            return " have" if plural else " has"
        case "ll":
            return " will"
        case "d":
            return " had" if pattern("HAD").match(rest) else " would"
        case _:
            return short


def _rewritten(text: str, name: str) -> tuple[str, bool]:
    """The text in the third person, and whether a present-tense verb was made to agree."""
    parts: list[str] = []
    at = 0
    agreed = False
    for found in pattern("FIRSTPERSON").finditer(text):
        if found.start() < at:
            continue
        pronoun, short = found["pronoun"].lower(), found["short"] or ""
        before, rest = text[: found.start()], text[found.end() :]
        if pronoun == "i" and before.endswith(("War ", "Part ", "Type ")):
            continue
        parts.append(text[at : found.start()])
        at = found.end()
        if pronoun in {"i", "we"}:
            plural = pronoun == "we" or pattern("ANDOTHERS").search(before[-80:]) is not None
            parts.append(f"{name} and others" if pronoun == "we" else name)
            if short:
                parts.append(_auxiliary(short, rest, plural))
            elif not plural and (following := pattern("NEXTVERB").match(rest)):
                verb = verb_for_one(following["verb"])
                agreed = agreed or verb != following["verb"]
                parts.append(f"{following['adverbs']}{following['space']}{verb}")
                at += following.end()
            continue
        if pronoun in {"my", "our", "mine", "ours"}:
            parts.append(f"{name}'s")
        else:
            parts.append("themselves" if pronoun in {"myself", "ourselves"} else name)
        parts.append(short)
    parts.append(text[at:])
    return "".join(parts), agreed


def to_third_person(sentence: str, name: str) -> str:
    """The sentence with the speaker's name for I, me, my, mine, we, us and our; verbs agree. Double-quoted speech stays
    as it is. ``we`` becomes "NAME and others": whom it includes is unknown."""
    parts = _QUOTED.split(sentence)
    for position in range(0, len(parts), 2):
        text, agreed = _rewritten(parts[position], name)
        if agreed and " to " not in text:
            text = pattern("ANDVERB").sub(lambda found: found["and"] + verb_for_one(found["verb"]), text)
        parts[position] = text
    return "".join(parts)


def is_certain(sentence: str) -> bool:
    """Whether it is certain that "I" and "my" are the speaker's: not in what somebody else is quoted with."""
    found = pattern("REPORTING").search(_QUOTED.sub("", sentence))
    if pattern("NOCLAUSE").search(sentence):
        return False
    return found is None or (found["who"] or "").casefold() in {"i", "we"}


def without_quotes(sentence: str) -> str:
    """The sentence with quoted speech blanked, every other character in its place."""
    return _QUOTED.sub(lambda found: "·" * len(found.group()), sentence)
