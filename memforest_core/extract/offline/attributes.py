"""States that plain sentences set: whose they are, and a value of the kind that the attribute has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.state_names import single_valued
from memforest_core.extract.answer import MAX_SHORT_CHARS
from memforest_core.extract.offline import kinds
from memforest_core.extract.offline.clause_subjects import Subject, subject_at
from memforest_core.extract.offline.kinds import Reader, Reading
from memforest_core.extract.offline.rules import OF_THE_SPEAKER, PROJECT, Rule, rules
from memforest_core.extract.offline.stance import is_asserted
from memforest_core.extract.offline.subjects import NOT_NAMES


@dataclass(frozen=True, slots=True)
class State:
    """One attribute a sentence sets."""

    subject: str
    attribute: str
    value: str
    previous_value: str
    change: Change
    polarity: Polarity
    modality: Modality
    start: int
    """Of its clause in the sentence."""
    end: int
    """Of its value in the sentence."""
    clause: str
    """Subject, predicate and value, in the speaker's words."""


_HEAD = re.compile(
    r"(?:[,;:!?()—–]+|\.(?!\d)|\s-+\s|(?:^|(?<=[\s,;]))(?P<word>and|but|so|because|bc|cause|cuz|cos|since|plus|though"
    r"|although|yet|then|also|while|which\s+is\s+why)\b)\s*",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:\W*(?:well|so|and|but|also|then|plus|btw|by\s+the\s+way|fyi|ok|okay|oh|hi|hey|hello|lol|haha+|hmm+|yes|yeah"
    r"|yep|no|nope|nah"
    r"|actually|honestly|anyway|update|news|big\s+news|ps|guess\s+what|fun\s+fact|for\s+the\s+record|as\s+you\s+know"
    r"|you\s+know|you\s+see"
    r"|remember(?:\s+that)?|(?:please\s+)?note(?:\s+that)?|reminder|edit|correction|sorry|thing\s+is|the\s+thing\s+is"
    r"|just\s+so\s+you\s+know"
    r"|happy\s+to\s+say(?:\s+that)?|(?:i\s+(?:already\s+)?told\s+you|did\s+i\s+tell\s+you)(?:\s+that)?)\b[\s,:.!]*)*"
    r"(?:(?:in|on|last|this|next|since|from|by|as\s+of|at|back\s+in|after|before|now|today|yesterday|currently"
    r"|recently|finally|these\s+days"
    r"|right\s+now|at\s+the\s+moment|two|three|four|five|a\s+few|a\s+couple\s+of)\b(?:\s+[\w’'-]+){0,4}?,?\s+(?=(?:i"
    r"|we|my|our)\b))?",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"\s*(?:$|[,;:!)(…—–\N{MIDDLE DOT}]|\.(?!\w)|\s-+(?:\s|$)|[^\w\s?'’&/%-])|\s+(?:now|since|for|with|because|bc"
    r"|cause|cuz|cos|and|but|or|so|which|who|where|when"
    r"|these|atm|currently|again|anymore|any|lol|haha+|too|as|also|already|yet|last|this|next|in|on|at|near|from"
    r"|until|till|after|before|by"
    r"|although|though|while|right|rn|btw|ago|every|all|today|yesterday|tomorrow|soon|full|part|here|there|not|via"
    r"|out|of|to|thanks"
    r"|originally|daily|weekly|regularly|permanently|together|alone|myself|once|twice|later|early|around|about|over"
    r"|during|a\s+(?:few|couple|while|year|month|week|day|long)"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|\d+|most|more|than|really|lately|recently|instead|years?"
    r"|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday|tonight|then|since|plus|due|how|what|that|just|and\s+i|i|we|my|it|she|he|they"
    r"|you)\b",
    re.IGNORECASE,
)
_MORE = re.compile(r"\s*(?:,\s*(?:and\s+|or\s+)?|\s(?:and|or|&|\+)\s+)(?!i\b|my\b|we\b)", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_ENDED = re.compile(r"\bno\s+longer\b", re.IGNORECASE)
_ANY_MORE = re.compile(r"\s*(?:anymore|any\s+more|any\s+longer)\b", re.IGNORECASE)
_FROM = re.compile(r"\s+from\b", re.IGNORECASE)
_UNSURE = re.compile(
    r"\b(?:to|would|could|should|might|may|must|will|want|wants|hope|if|never|not|almost|nearly|dream|wish|plan|plans"
    r"|going|gonna|let|until|till)\b"
    r"|['’](?:d|ll)\b|n['’]t\b",
    re.IGNORECASE,
)
_NEW_SUBJECT = re.compile(
    r"(?:he|she|they|you|it|this|that|the|there|his|her|their|who|which|what|if|when|nobody|everyone|someone)\b", re.I
)
_HERE = re.compile(r"(?P<what>[\w-]+(?:\s[\w-]+){0,2})(?:\s+here\b|(?=,\s+(?:for\s+)?\w+\s+years\b))", re.IGNORECASE)
_AS_HOBBY = re.compile(
    r"\W*(?:[\w-]+\W+){0,3}?(?:in|on|as|for|at)\s+(?:(?:my|his|her)\s+(?:free|spare)\s+time|(?:the\s+)?(?:weekends?"
    r"|side)|a\s+hobby|fun|heart)\b",
    re.I,
)
_WE = frozenset({"residence", "hometown", "pet", "possession", "relationship", "diet"})
"""What is also read of "we"."""


def states_in(sentence: str, speaker: str, known: Collection[str] = ()) -> list[State]:
    """The states a sentence sets, in order. ``known`` are the names of those who speak, and of their relatives."""
    found: list[State] = []
    subject: Subject | None = None
    seen = 0
    for at, joined in _heads(sentence):
        if at < seen:
            continue
        own = subject_at(sentence, at, speaker, known)
        states = list(_special(sentence, at, speaker))
        if not states and own is None and _NEW_SUBJECT.match(sentence, at):
            subject = None
            continue
        if not states and own is not None:
            subject = own
            states = [*_named(own, speaker, at), *_of(sentence, own.end, sentence[at : own.end], own, speaker)]
        elif not states and (at == 0 or not joined):
            shown = _HERE.match(sentence, at)
            words = _HERE.sub(r"\g<what>", sentence[at:], count=1) if shown else sentence[at:]
            states = list(_without_subject(sentence, at, words, Subject(speaker, at, "I"), bare=shown is None))
            subject = Subject(speaker, at, "I") if states else subject
        elif not states and subject is not None and not _UNSURE.search(sentence, subject.end, at):
            plain = any(state.subject == subject.name for state in found)
            following = _without_subject(sentence, at, sentence[at:], subject, bare=False, listing=plain)
            states = [state for state in following if plain or state.attribute not in OF_THE_SPEAKER]
        for state in states:
            if is_asserted(sentence, state.start, state.end):
                found.append(state)
                seen = max(seen, state.end)
    return found


def _heads(sentence: str) -> Iterator[tuple[int, bool]]:
    """Where clauses may begin, and whether a word or a comma joins them to what is before."""
    first = _FILLER.match(sentence)
    yield (first.end() if first else 0), False
    for found in _HEAD.finditer(sentence):
        filler = _FILLER.match(sentence, found.end())
        yield (filler.end() if filler else found.end()), True


def _named(subject: Subject, speaker: str, at: int) -> Iterator[State]:
    """That a relative has a name, of a subject that says so ("my sister Maya")."""
    if subject.relation:
        yield State(
            speaker,
            subject.relation,
            subject.name,
            "",
            Change.NONE,
            Polarity.POSITIVE,
            Modality.ASSERTED,
            at,
            subject.end,
            subject.text,
        )


def _without_subject(
    sentence: str, at: int, words: str, subject: Subject, *, bare: bool, listing: bool = True
) -> Iterator[State]:
    """States of a clause that leaves its subject out, as if it were there; with ``listing`` also one without a verb."""
    verb = " am" if subject.text.casefold() in {"i", "we"} else " is"
    for lead in (f"{subject.text} ", f"{subject.text}{verb} ")[: 2 if listing else 1]:
        shadow = lead + words
        for state in _of(shadow, len(subject.text), subject.text, subject, subject.name, bare=bare):
            shift = at - len(lead) + (len(sentence) - at - len(words))
            yield State(
                state.subject,
                state.attribute,
                state.value,
                state.previous_value,
                state.change,
                state.polarity,
                state.modality,
                at,
                max(at, state.end + shift),
                state.clause,
            )
            return


def _of(text: str, at: int, said: str, subject: Subject, speaker: str, *, bare: bool = False) -> Iterator[State]:
    """The states of the first rule that matches behind a subject."""
    for rule in rules():
        if (bare and "bare" not in rule.marks) or (rule.attribute in OF_THE_SPEAKER and subject.name != speaker):
            continue
        if subject.text.casefold() == "we" and rule.attribute not in _WE:
            continue
        matched = rule.wording.match(text, at)
        if matched is None:
            continue
        readings = list(_read(rule, matched, text))
        if readings and not (rule.attribute == "job" and _AS_HOBBY.match(text, readings[-1].end)):
            yield from _states(rule, matched, readings, text, at, said, subject)
            return


def _states(
    rule: Rule, matched: re.Match[str], readings: list[Reading], text: str, at: int, said: str, subject: Subject
) -> Iterator[State]:
    wording = matched.group()
    end = readings[-1].end
    denied = _DENIED.search(wording) is not None
    over = _ENDED.search(wording) is not None or (denied and _ANY_MORE.match(text, end) is not None)
    change = Change.STOP if over else rule.change
    if rule.change is Change.STOP and denied and not over:
        change = Change.NONE
    polarity = Polarity.NEGATIVE if (denied and not over) or rule.polarity is Polarity.NEGATIVE else Polarity.POSITIVE
    for reading in readings:
        yield State(
            subject=subject.name,
            attribute=rule.attribute,
            value=reading.value[:MAX_SHORT_CHARS],
            previous_value=_before(matched, text, end) if rule.change is Change.SWITCH else "",
            change=change,
            polarity=polarity,
            modality=rule.modality,
            start=at - len(said),
            end=reading.end,
            clause=said + (text[at:end] if len(readings) == 1 else f"{wording} {reading.value}"),
        )


def _read(rule: Rule, matched: re.Match[str], text: str) -> Iterator[Reading]:
    value = matched.groupdict().get("value")
    if value is not None:
        plain = value if value.casefold() not in {"there"} else ""
        yield Reading(plain, matched.end("value"))
        return
    if rule.reader is None:
        return
    found = _values(rule.reader, rule.attribute, text, matched.end())
    if found and (rule.tail or _TAIL).match(text, found[-1].end):
        yield from found


def _before(matched: re.Match[str], text: str, end: int) -> str:
    """The value that a switch names as the one before ("moved to Oslo from Rome")."""
    named = matched.groupdict().get("origin")
    if named:
        return str(named)
    origin = _FROM.match(text, end)
    found = kinds.place(text, origin.end()) if origin else None
    return found.value if found else ""


def _values(reader: Reader, attribute: str, text: str, at: int) -> list[Reading]:
    """A value, and of an attribute with several at a time those that are listed after it."""
    found: list[Reading] = []
    while (reading := reader(text, at)) is not None and (not found or _TAIL.match(text, reading.end)):
        found.append(reading)
        more = _MORE.match(text, reading.end)
        if more is None or single_valued(attribute):
            break
        at = more.end()
    return found


def _special(sentence: str, at: int, speaker: str) -> Iterator[State]:
    """Statements that name their attribute themselves ("my rent is"), and the status of a project."""
    project = PROJECT.match(sentence, at)
    if project is not None and project["what"].split()[0].casefold() not in NOT_NAMES:
        yield _state(project["what"], "status", Reading(project["value"], project.end()), sentence, at, Change.NONE)
    for rule in rules(clause=True):
        matched = rule.wording.match(sentence, at)
        readings = list(_read(rule, matched, sentence)) if matched else []
        if matched is not None and readings:
            what = matched.groupdict().get("what") or ""
            attribute = rule.attribute or what.casefold().replace("favourite", "favorite")
            for reading in readings:
                yield _state(speaker, attribute, reading, sentence, at, rule.change)
            return


def _state(subject: str, attribute: str, reading: Reading, sentence: str, at: int, change: Change) -> State:
    return State(
        subject=subject,
        attribute=attribute,
        value=reading.value[:MAX_SHORT_CHARS],
        previous_value="",
        change=change,
        polarity=Polarity.POSITIVE,
        modality=Modality.ASSERTED,
        start=at,
        end=reading.end,
        clause=sentence[at : reading.end],
    )
