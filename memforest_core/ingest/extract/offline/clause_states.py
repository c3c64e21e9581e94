"""States that plain sentences set: whose they are, and a value of the kind that the attribute has.

A correction without a verb of its own means the latest statement with a value of the same kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.state_names import single_valued
from memforest_core.domain.text import normalize_name
from memforest_core.ingest.extract.extraction_prompt import MAX_SHORT_CHARS
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.english_text import NOT_NAMES, is_kind, names_in, pattern
from memforest_core.ingest.extract.offline.kinds import Reader, Reading
from memforest_core.ingest.extract.offline.stance import OF_THE_SPEAKER, Rule, is_asserted, rules

_OWNED = re.compile(r"['’]s?$")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a clause is about, and where its predicate begins."""

    name: str
    end: int
    text: str
    """As the clause has it."""
    relation: str = ""
    """What somebody with a name is to the speaker ("sister")."""


def subject_at(sentence: str, at: int, speaker: str, known: Collection[str] = ()) -> Subject | None:
    """The subject that a clause begins with; ``known`` are names of speakers and of relatives. None for any other."""
    if (own := pattern("SELF").match(sentence, at)) is not None:
        return Subject(speaker, own.end(), own["who"] or "I")
    if (mine := pattern("MINE").match(sentence, at)) is not None:
        return _theirs(sentence, mine, speaker)
    for name in sorted(known, key=len, reverse=True):
        end = at + len(name)
        if sentence.startswith(name, at) and not sentence[end : end + 1].isalnum():
            return Subject(name, end, name)
    if (named := pattern("SUBJECTNAME").match(sentence, at)) is not None and named["name"] in names_in(sentence):
        return Subject(named["name"], named.end("name"), named["name"])
    return None


def _theirs(sentence: str, mine: re.Match[str], speaker: str) -> Subject | None:
    """Somebody of the speaker's ("my best friend's dad"), under their name where one follows."""
    words = list(re.finditer(r"\S+", mine["words"]))
    for number, word in enumerate(words):
        following = words[number + 1].group() if number + 1 < len(words) else ""
        bare = _OWNED.sub("", word.group())
        if not _is_person(bare) or _is_person(_OWNED.sub("", following)):
            continue
        phrase = mine["words"][: word.start() + len(bare)]
        end = mine.start("words") + len(phrase)
        called = pattern("KINCALLED").match(sentence, end)
        if (
            called is None
            or not called["name"][0].isupper()
            or called["name"].casefold() in NOT_NAMES
            or is_kind(called["name"], "company", "drink")
        ):
            return Subject(f"{speaker}'s {phrase}", end, sentence[mine.start() : end])
        return Subject(called["name"], called.end(), sentence[mine.start() : called.end()], _relation(phrase))
    return None


def _relation(phrase: str) -> str:
    """What somebody is, without what describes them ("little sister" is a sister, a best friend is that)."""
    words = phrase.casefold().split()
    return " ".join(words[-2:]) if len(words) > 1 and is_kind(" ".join(words[-2:]), "person") else words[-1]


def _is_person(word: str) -> bool:
    return is_kind(pattern("KIN").sub("", word), "person")


@dataclass(frozen=True, slots=True)
class State:
    """One attribute a sentence sets."""

    subject: str
    attribute: str
    value: str
    start: int
    """Of its clause in the sentence."""
    end: int
    """Of its value in the sentence."""
    clause: str
    """Subject, predicate and value, in the speaker's words; empty where the sentence says it as a whole."""
    previous_value: str = ""
    change: Change = Change.NONE
    polarity: Polarity = Polarity.POSITIVE
    modality: Modality = Modality.ASSERTED
    aside: bool = False
    """The rest of the sentence, with its date, is about something else."""
    turn: int = 0
    """The number of its turn, of a state that later sentences may correct."""


_TAIL = pattern("TAIL")
_DENIED = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_ENDED = re.compile(r"\bno\s+longer\b", re.IGNORECASE)
_ANY_MORE = re.compile(r"\s*(?:anymore|any\s+more|any\s+longer)\b", re.IGNORECASE)
_FROM = re.compile(r"\s+from\b", re.IGNORECASE)
_FAVORITE = re.compile(r"^fav(?:ou?rite|e)?\b")
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
        if not states and own is None and pattern("NEWSUBJECT").match(sentence, at):
            subject = None
            continue
        if not states and own is not None:
            subject = own
            states = list(_of(sentence, own.end, sentence[at : own.end], own, speaker)) or _own_name(
                sentence, own, speaker
            )
            if own.relation:
                clause = f"{own.name} is my {own.relation}."
                states.insert(0, State(speaker, own.relation, own.name, at, own.end, clause, aside=True))
        elif not states and not joined:
            shown = pattern("HERE").match(sentence, at)
            words = pattern("HERE").sub(r"\g<what>", sentence[at:], count=1) if shown else sentence[at:]
            states = _without_subject(sentence, at, words, Subject(speaker, at, "I"), bare=shown is None)
            subject = Subject(speaker, at, "I") if states else subject
        elif not states and subject is not None and not pattern("UNSURE").search(sentence, subject.end, at):
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
    bullet = re.match(r"(?:\s*[*•>-]\s+)*", sentence)
    first = pattern("FILLER").match(sentence, bullet.end() if bullet else 0)
    yield (first.end() if first else 0), False
    for found in pattern("HEAD").finditer(sentence):
        filler = pattern("FILLER").match(sentence, found.end())
        yield (filler.end() if filler else found.end()), True


def _own_name(sentence: str, subject: Subject, speaker: str) -> list[State]:
    """That the speaker has the name that their turns have ("im Kim, 27")."""
    said = re.match(rf"(?:['’]m|\s+am)\s+(?P<name>{re.escape(speaker)})\b", sentence[subject.end :], re.IGNORECASE)
    if said is None or subject.name != speaker:
        return []
    end = subject.end + said.end()
    clause = f"My name is {said['name']}."
    return [State(speaker, "name", said["name"], subject.end - len(subject.text), end, clause, aside=True)]


def _without_subject(
    sentence: str, at: int, words: str, subject: Subject, *, bare: bool, listing: bool = True
) -> list[State]:
    """States of a clause that leaves its subject out, as if it were there; with ``listing`` also one without a verb."""
    verb = " am" if subject.text.casefold() in {"i", "we"} else " is"
    for lead in (f"{subject.text} ", f"{subject.text}{verb} ")[: 2 if listing else 1]:
        shift = len(sentence) - len(words) - len(lead)
        found = list(_of(lead + words, len(subject.text), subject.text, subject, subject.name, bare=bare))
        if found:
            return [replace(state, start=at, end=max(at, state.end + shift)) for state in found]
    return []


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
        if readings and not (rule.attribute == "job" and pattern("ASHOBBY").match(text, readings[-1].end)):
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
            start=at - len(said),
            end=reading.end,
            clause=said + (text[at:end] if len(readings) == 1 else f"{wording} {reading.value}"),
            previous_value=_before(matched, text, end) if rule.change is Change.SWITCH else "",
            change=change,
            polarity=polarity,
            modality=rule.modality,
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
        more = pattern("MORE").match(text, reading.end)
        compound = any(is_kind(word, "preposition") for word in reading.value.split())
        if more is None or single_valued(attribute) or compound:
            break
        at = more.end()
    return found


def _special(sentence: str, at: int, speaker: str) -> Iterator[State]:
    """Statements that name their attribute themselves ("my rent is"), and the status of a project."""
    project = pattern("PROJECT").match(sentence, at)
    if project is not None and project["what"].split()[0].casefold() not in NOT_NAMES:
        yield State(project["what"], "status", project["value"], at, project.end(), project.group())
    for rule in rules(clause=True):
        matched = rule.wording.match(sentence, at)
        readings = list(_read(rule, matched, sentence)) if matched else []
        if matched is not None and readings:
            what = _FAVORITE.sub("favorite", (matched.groupdict().get("what") or "").casefold())
            stance: dict[str, Any] = {"change": rule.change, "polarity": rule.polarity, "modality": rule.modality}
            for reading in readings:
                value, clause = reading.value[:MAX_SHORT_CHARS], sentence[at : reading.end]
                yield State(speaker, rule.attribute or what, value, at, reading.end, clause, **stance)
            return


_READERS: dict[str, tuple[Reader, ...]] = {
    "residence": (kinds.place,),
    "hometown": (kinds.place,),
    "job": (kinds.occupation, kinds.employer),
    "age": (kinds.age,),
    "weight": (kinds.weight,),
    "name": (kinds.name,),
    "pet": (kinds.animal, kinds.READERS["own_animal"]),
    "pet name": (kinds.name,),
    "diet": (kinds.listed("diet"),),
    "allergy": (kinds.READERS["allergen"],),
    "possession": (kinds.READERS["goods"],),
}
_MEASURED: tuple[Reader, ...] = (kinds.READERS["measure"],)
_OTHER = frozenset({"preference", "activity", "relationship", "height", "status"})
"""Their values have no shape of their own: no correction can be assigned to them."""
_CORRECTIONS = tuple(pattern(name) for name in ("MEANT", "STARRED", "ITIS", "NOTOLD", "OLDFIRST", "SORRYNEW"))


def corrected(sentence: str, turn: int, earlier: Sequence[State]) -> list[State]:
    """The states that a sentence without a state of its own corrects or takes back; ``earlier`` in order of time."""
    if not earlier:
        return []
    for wording in _CORRECTIONS:
        found = wording.match(sentence)
        meant = (_corrected(found, each) for each in reversed(earlier)) if found else ()
        if (state := next(filter(None, meant), None)) is not None:
            return [state]
    if pattern("KIDDING").search(sentence) or pattern("DOUBT").match(sentence):
        last = max(each.turn for each in earlier)
        return [_ended(each, sentence) for each in earlier if each.turn == last >= turn - 2]
    if pattern("SOLD").search(sentence):
        return [
            _ended(each, sentence, Change.STOP) for each in reversed(earlier) if each.attribute in {"possession", "pet"}
        ][:1]
    if (gone := pattern("GONE").search(sentence)) is not None:
        name = gone["name"] or gone["other"]
        return [
            _ended(each, sentence, Change.STOP)
            for each in earlier
            if each.attribute == "pet" and _meant(name, each.value)
        ][:1]
    if pattern("OFF").search(sentence):
        return [_ended(each, sentence) for each in reversed(earlier) if each.modality is Modality.PLANNED][:1]
    return []


def _corrected(found: re.Match[str], earlier: State) -> State | None:
    """What a correction makes of a state, if it can mean it."""
    old, new = found.groupdict().get("old") or "", found["new"].strip()
    if earlier.attribute in _OTHER or (old and not _meant(old, earlier.value)):
        return None
    for reader in _READERS.get(earlier.attribute, _MEASURED):
        reading = reader(new, 0)
        if (
            reading is not None
            and not new[reading.end :].strip(" .!")
            and reading.value.casefold() != earlier.value.casefold()
        ):
            clause = f"{earlier.subject} corrects: {earlier.attribute} {reading.value}, not {earlier.value}."
            modality = Modality.PLANNED if earlier.modality is Modality.PLANNED else Modality.ASSERTED
            said = {"value": reading.value, "clause": clause, "previous_value": earlier.value, "modality": modality}
            return _instead(earlier, found.end(), change=Change.CORRECT, **said)
    return None


def _meant(old: str, value: str) -> bool:
    one, other = normalize_name(old), normalize_name(value)
    return bool(one) and (one == other or f" {one} " in f" {other} ")


def _ended(earlier: State, sentence: str, change: Change = Change.CORRECT) -> State:
    polarity = Polarity.POSITIVE if change is Change.STOP else Polarity.NEGATIVE
    return _instead(earlier, len(sentence), change=change, polarity=polarity)


def _instead(earlier: State, end: int, **changed: Any) -> State:
    """What a sentence that ends at ``end`` makes of an earlier state."""
    plain = State(earlier.subject, earlier.attribute, earlier.value, 0, end, "")
    return replace(plain, **changed)
