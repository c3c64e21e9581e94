"""The offline answer to a window: which sentences are facts, and what each of them states."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from memforest_core.domain.cells import MAX_WINDOW_TURNS, Window, WindowTurn
from memforest_core.domain.dates import find_date_phrases
from memforest_core.domain.facts import Change, Origin, Polarity
from memforest_core.domain.pasted import REQUESTS_TEXT, body_of
from memforest_core.domain.people import with_names
from memforest_core.domain.rendering import speaker, turn_line
from memforest_core.domain.text import clean, is_loop, sentences
from memforest_core.domain.turns import Role
from memforest_core.ingest.extract.extraction_prompt import (
    MAX_ITEMS,
    MAX_SHORT_CHARS,
    CellSummary,
    ExtractionAnswer,
    Item,
)
from memforest_core.ingest.extract.offline.address import without_address
from memforest_core.ingest.extract.offline.clause_states import State, corrected, states_in, subject_at
from memforest_core.ingest.extract.offline.english_text import is_english, lists, names_in, packed, pattern, scene_of
from memforest_core.ingest.extract.offline.person import is_certain, spelled_out, to_third_person, without_quotes
from memforest_core.ingest.extract.offline.stance import (
    accepts,
    corrects,
    is_about_speaker,
    is_chat,
    is_question,
    is_request,
    modality_of,
    polarity_of,
    statement_in_question,
    value_denied,
    without_lead_in,
)

MAX_RESULTS = 4
"""Of a turn, or of a part of a long one: a log that goes on for hours is found by its text."""
MAX_VALUES = 6
"""In one sentence."""
MAX_RECORD_CHARS = 2_000

UNITS = dict(pair.split("=") for pair in lists()["unit"])
"""Last parts of a key that say a unit, and how it is written; those that mean several things ("ms") are left out."""
LABELS = ("site", "place", "location", "room", "station", "device", "sensor", "date", "time")
"""Keys of texts that say what was measured. Not "name": that may be a person's."""

_RECORD = re.compile(rf"\{{[^{{}}]{{1,{MAX_RECORD_CHARS}}}\}}")


def results(text: str) -> Iterator[tuple[str, str]]:
    """What the first few records of a tool's result say that was measured: a sentence and the record, letter by letter.
    A record is a flat object of JSON, also within others and in a part that was cut between them."""
    left = MAX_RESULTS
    for match in _RECORD.finditer(text):
        try:
            record = json.loads(match.group())
        except ValueError:
            continue
        values = list(_values(record))[:MAX_VALUES]
        label = " ".join(str(record[key]) for key in LABELS if isinstance(record.get(key), str))
        if values and label and left:
            left -= 1
            yield clean(f"{label[:120]}: {', '.join(values)}"), match.group()


def _values(record: Mapping[str, object]) -> Iterator[str]:
    for key, value in record.items():
        name, _, last = key.replace("-", "_").rpartition("_")
        unit = UNITS.get(last.casefold())
        # A price for each kilowatt hour is no energy.
        if not name or name.endswith("_per") or unit is None:
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{name.replace('_', ' ')} {value} {unit}"


MAX_TEXT = 2_000
MAX_LABEL = 200
MAX_SUMMARY = 240
MAX_ENTITIES = 24
MAX_ADVICE = 4
"""Facts from the assistant per window."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of a text, ending with a whole word where there is one."""
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    at = max(head.rfind(" "), head.rfind("\n"))
    return (head[:at] if at > limit // 2 else text[:limit]).rstrip()


def _dates(sentence: str) -> str:
    phrases = find_date_phrases(sentence)
    return cut(phrases[0], MAX_SHORT_CHARS) if phrases else ""


def _dates_of(body: str, states: Sequence[State]) -> list[str]:
    """The date of each state: the first phrase between it and the next state, else the sentence's first one."""
    shared = _dates(body)
    if len(states) < 2:
        return [shared]
    starts = [0, *(state.start for state in states[1:]), len(body)]
    return [_dates(body[start:end]) or shared for start, end in pairwise(starts)]


def _as_it_is(turn: WindowTurn, text: str, opening: str, subject: str) -> Iterator[Item]:
    for piece in packed(text, MAX_SHORT_CHARS):
        if any(char.isalnum() for char in piece):
            said = cut(f"{opening}: {clean(piece).strip()}", MAX_TEXT)
            yield _draft(turn, said, piece, subject=subject, when=_dates(clean(piece)))


def _draft(
    turn: WindowTurn,
    text: str,
    quote: str,
    *,
    subject: str,
    state: State | None = None,
    body: str = "",
    when: str = "",
    origin: Origin = Origin.USER,
) -> Item:
    """An item with its stance read from ``body``, the English sentence in the speaker's words."""
    unquoted = without_quotes(body)
    change, previous_value = (state.change, state.previous_value) if state else (Change.NONE, "")
    if origin is Origin.USER and corrects(without_quotes(quote[:MAX_SHORT_CHARS])):
        change, previous_value = Change.CORRECT, previous_value or value_denied(unquoted)[:MAX_SHORT_CHARS]
    return Item(
        text=text.rstrip(" ,;"),
        turns=[turn.number],
        # Lone surrogates can't be part of it.
        quote=cut(max(_SURROGATE.split(quote), key=len).strip(), MAX_SHORT_CHARS),
        speaker=cut(clean(turn.speaker), MAX_LABEL),
        subject=cut(state.subject if state else subject, MAX_LABEL),
        attribute=state.attribute[:MAX_LABEL] if state else "",
        value=state.value if state else "",
        previous_value=previous_value,
        change=change,
        polarity=state.polarity if state else polarity_of(unquoted),
        modality=state.modality if state else modality_of(unquoted),
        when=when,
        entities=list(names_in(body))[:MAX_ENTITIES],
        scene=scene_of(body, state.attribute if state else ""),
        origin=origin,
    )


def _body(sentence: str) -> str:
    """The statement in a sentence, in the speaker's words; empty without one."""
    body = without_lead_in(sentence)
    for said in (sentence, body):
        if is_chat(said) or REQUESTS_TEXT.match(said):
            return ""
        if is_question(said):
            return statement_in_question(said)
    if is_request(body) and not is_about_speaker(body):
        return ""
    return body


def _statement(body: str, name: str) -> tuple[str, str]:
    """The sentence in the third person, and its subject."""
    if pattern("ELLIPTIC").match(body) and not is_about_speaker(body.split(",")[0][:60]):
        gerund = re.match(r"(?:\w+\s+)?\w+ing\b", body) and not re.match(r"\w+\s+\w+ed\b", body)
        body = f"I {'am ' if gerund else ''}{body[0].lower()}{body[1:]}"
    if not is_certain(body):
        return f"{speaker(name)} said: {body}", ""
    third = to_third_person(body, name)
    names = names_in(body)
    subject = subject_at(body, 0, name)
    if subject is not None and subject.name != name:
        return third, subject.name
    leading = next((known for known in names if re.match(rf"(?:The\s+)?{re.escape(known)}\b", body)), "")
    if is_about_speaker(body):
        opens = leading and not re.match(rf".{{0,{len(leading) + 1}}}(?:,|\s+and\s+I\b)", body)
        return third, leading if opens else name
    if third != body:
        return third, leading or name
    if leading:
        return third, leading
    return f"{speaker(name)} said: {third}", name if corrects(body) else ""


def _from_sentence(
    turn: WindowTurn, sentence: str, named: str, name: str, known: Collection[str], earlier: list[State]
) -> Iterator[Item]:
    """What a sentence says. ``named`` has names in place of mentions and nicknames, ``known`` are the names of those
    who speak, ``earlier`` is what the speaker said of themselves before."""
    written = spelled_out(clean(named))
    body = cut(_body(written).strip(), MAX_TEXT)
    if not body or is_loop(body):
        return
    text, subject = _statement(body, name)
    plain = without_quotes(body)
    states = states_in(plain, name, known) or corrected(written, turn.number, earlier)
    main = [state for state in states if not state.aside]
    dates = _dates_of(body, main)
    first = main[0] if main else None
    for state in states:
        if state.change is Change.CORRECT and state.polarity is Polarity.NEGATIVE:
            earlier[:] = [each for each in earlier if (each.attribute, each.value) != (state.attribute, state.value)]
            continue
        earlier.append(replace(state, turn=turn.number))
    if first is not None and first.change is Change.CORRECT and first.clause:
        text = first.clause
    if first is not None and first.attribute == "status":
        text = text.removeprefix(f"{speaker(name)} said: ")
    text = text[:1].upper() + text[1:] if not text.startswith(name) else text
    for state in states:
        if state.aside:
            clause = cut(to_third_person(state.clause, name), MAX_TEXT)
            yield _draft(turn, clause, sentence, subject=name, state=state, body=body)
    if main or not any(state.end >= len(body.rstrip(" .!")) for state in states):
        yield _draft(turn, cut(text, MAX_TEXT), sentence, subject=subject, state=first, body=body, when=dates[0])
    for state, when in zip(main[1:], dates[1:], strict=True):
        clause = cut(to_third_person(state.clause, name), MAX_TEXT) or text
        yield _draft(turn, clause, sentence, subject=state.subject, state=state, body=body, when=when)


def _from_turn(turn: WindowTurn, window: Window, known: Collection[str], earlier: list[State]) -> Iterator[Item]:
    name = clean(turn.speaker).strip() or turn.role.value
    at = 0
    for piece in turn.pasted:
        yield from _from_words(turn, turn.text[at : piece.start], name, window, known, earlier)
        if piece.author:
            writer = name if piece.author.casefold() == name.casefold() else cut(clean(piece.author), MAX_LABEL)
            words = body_of(turn.text[piece.start : piece.end])
            yield from _from_words(turn, words, writer, window, known, [])
        else:
            yield from _as_it_is(turn, turn.text[piece.start : piece.end], f"{speaker(name)} sent the text", "")
        at = piece.end
    yield from _from_words(turn, turn.text[at:], name, window, known, earlier)


def _from_words(
    turn: WindowTurn, text: str, name: str, window: Window, known: Collection[str], earlier: list[State]
) -> Iterator[Item]:
    """What ``name`` says in a turn, or wrote in what it pastes."""
    found = list(sentences(text))
    if found and not is_english(text):
        yield from _as_it_is(turn, text, f"{speaker(name)} said", name)
        return
    for sentence in found:
        said = without_address(sentence, window.people, known)
        named = said if window.people is None else with_names(said, window.people)
        yield from _from_sentence(turn, sentence, named, name, known, earlier)


def _accepted(window: Window) -> Iterator[Item]:
    """Facts from assistant turns that the user took up in the next turn."""
    turns = (*window.context, *window.turns)
    left = MAX_ADVICE
    for said, reply in pairwise(turns):
        accepted = said.role is Role.ASSISTANT and reply.role is Role.USER
        if not accepted or reply.cell == 0 or not accepts(reply.text):
            continue
        source = said if said.cell else reply
        replied = next(iter(sentences(reply.text)), "")
        for sentence in sentences(said.text):
            advice, listener, body = (clean(each) for each in (_body(sentence), reply.speaker, sentence))
            if not left or len(advice.split()) < 4:
                continue
            left -= 1
            text, body = f"{listener} accepted the assistant's suggestion: {advice.strip()}", cut(body, MAX_TEXT)
            quote = sentence if said.cell else replied
            text, when = cut(text, MAX_TEXT), _dates(body)
            yield _draft(source, text, quote, subject=listener, body=body, when=when, origin=Origin.ASSISTANT)


def _drafts(window: Window) -> list[Item]:
    by_turn: dict[int, list[Item]] = {turn.number: [] for turn in window.turns}
    for draft in _accepted(window):
        by_turn[draft.turns[0]].append(draft)
    spoken = [turn for turn in (*window.context, *window.turns) if turn.role is Role.USER]
    known = {name for turn in spoken if (name := clean(turn.speaker).strip())} | {window.owner}
    earlier: dict[str, list[State]] = defaultdict(list)
    for turn in spoken:
        found = list(_from_turn(turn, window, known, earlier[turn.speaker]))
        if turn.number in by_turn:
            by_turn[turn.number].extend(found)
    for turn in window.turns:
        if turn.role is Role.TOOL:
            # What a tool measured is about nobody, whatever names are near it.
            for text, quote in results(turn.text):
                when, text = _dates(clean(quote)), cut(text, MAX_TEXT)
                by_turn[turn.number].append(_draft(turn, text, quote, subject="", when=when, origin=Origin.ASSISTANT))
    drafts = [draft for turn in window.turns for draft in by_turn[turn.number]]
    return drafts[:MAX_ITEMS]


def _summary(window: Window, cell: int, drafts: list[Item]) -> CellSummary:
    numbers = {turn.number for turn in window.turns if turn.cell == cell}
    texts = [draft.text for draft in drafts if draft.turns[0] in numbers]
    if not texts:
        texts = [
            turn_line(clean(turn.speaker), clean(first))
            for turn in window.turns
            if turn.cell == cell and turn.role is not Role.ASSISTANT
            for first in sentences(turn.text)[:1]
        ]
    text = ""
    for said in dict.fromkeys(texts):
        joined = f"{text} {said}".strip()
        if len(joined) > MAX_SUMMARY:
            text = text or cut(said, MAX_SUMMARY)
            break
        text = joined
    return CellSummary(cell=cell, text=text)


def propose(window: Window) -> ExtractionAnswer:
    """The facts and cell summaries of a window (1 or more cells), the same for the same window. Every quote is a
    verbatim piece of its source turn. Raises nothing."""
    drafts = _drafts(window)
    cells = list(dict.fromkeys(turn.cell for turn in window.turns))[:MAX_WINDOW_TURNS]
    return ExtractionAnswer(items=drafts, summaries=[_summary(window, cell, drafts) for cell in cells])
