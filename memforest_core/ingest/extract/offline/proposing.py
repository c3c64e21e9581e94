"""The offline answer to a window: which sentences are facts, and what each of them states."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memforest_core.domain.cells import MAX_WINDOW_TURNS, Window, WindowTurn
from memforest_core.domain.dates import find_date_phrases
from memforest_core.domain.facts import Change, Modality, Origin, Polarity
from memforest_core.domain.mentions import with_names
from memforest_core.domain.pasted import REQUESTS_TEXT, body_of
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
from memforest_core.ingest.extract.offline.clause_states import Earlier, State, corrected, states_in, subject_at
from memforest_core.ingest.extract.offline.english_text import is_english, packed
from memforest_core.ingest.extract.offline.person import (
    about_listener,
    addressed,
    is_certain,
    spelled_out,
    to_third_person,
    without_quotes,
)
from memforest_core.ingest.extract.offline.results import results
from memforest_core.ingest.extract.offline.scene_labels import scene_of
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
from memforest_core.ingest.extract.offline.subjects import names_in

MAX_TEXT = 2_000
MAX_LABEL = 200
MAX_SUMMARY = 240
MAX_ENTITIES = 24
MAX_ADVICE = 4
"""Facts from the assistant per window."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_ELLIPTIC = re.compile(
    r"^(?:(?:just|finally|recently|also|already)\s+)?(?:moved|got|adopted|bought|started|quit|finished"
    r"|went|had|met|been|visited|signed|booked|tried|joined|passed|graduated|turned|sold|lost|won|ran"
    r"|made|cooked|planning|thinking|working|looking forward|moving|getting|going|hoping)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Draft:
    item: Item
    cell: int
    weight: int
    """How much is lost with it, for windows that hold more than an answer may."""


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of a text, ending with a whole word where there is one."""
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    at = max(head.rfind(" "), head.rfind("\n"))
    return (head[:at] if at > limit // 2 else text[:limit]).rstrip()


def _quote(sentence: str) -> str:
    """A verbatim piece of the sentence that fits; lone surrogates can't be part of it."""
    longest = max(_SURROGATE.split(sentence), key=len).strip()
    return cut(longest, MAX_SHORT_CHARS)


def _dates(sentence: str) -> str:
    phrases = find_date_phrases(sentence)
    return cut(phrases[0], MAX_SHORT_CHARS) if phrases else ""


def _dates_of(body: str, states: Sequence[State]) -> list[str]:
    """The date of each state, or that of a sentence without any: the first phrase between it and the next state.

    A state without a date of its own has the sentence's first one.
    """
    shared = _dates(body)
    if len(states) < 2:
        return [shared]
    starts = [0, *(state.start for state in states[1:]), len(body)]
    return [_dates(body[start:end]) or shared for start, end in pairwise(starts)]


def _as_it_is(turn: WindowTurn, text: str, opening: str, subject: str) -> Iterator[_Draft]:
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
) -> _Draft:
    """An item with its stance read from ``body``, the English sentence in the speaker's words."""
    unquoted = without_quotes(body)
    change, previous_value = (state.change, state.previous_value) if state else (Change.NONE, "")
    if origin is Origin.USER and corrects(without_quotes(quote[:MAX_SHORT_CHARS])):
        change, previous_value = Change.CORRECT, previous_value or value_denied(unquoted)[:MAX_SHORT_CHARS]
    item = Item(
        text=text,
        turns=[turn.number],
        quote=_quote(quote),
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
    weight = 2 * (state is not None) + (when != "") + any(char.isdigit() for char in text)
    return _Draft(item, turn.cell, weight)


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
    if _ELLIPTIC.match(body) and not is_about_speaker(body.split(",")[0][:60]):
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
    turn: WindowTurn, sentence: str, named: str, name: str, known: Collection[str], earlier: list[Earlier]
) -> Iterator[_Draft]:
    """What a sentence says; ``named`` is the sentence with names in the place of mentions and nicknames.

    ``known`` are the names of those who speak, ``earlier`` what the speaker said of themselves before.
    """
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
        planned = state.modality is Modality.PLANNED
        if state.change is Change.CORRECT and state.polarity is Polarity.NEGATIVE:
            earlier[:] = [each for each in earlier if (each.attribute, each.value) != (state.attribute, state.value)]
            continue
        earlier.append(Earlier(turn.number, state.subject, state.attribute, state.value, planned))
    if first is not None and first.change is Change.CORRECT and first.clause:
        text = first.clause
    if first is not None and first.attribute == "status" and text.startswith(f"{speaker(name)} said: "):
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


def _from_turn(turn: WindowTurn, window: Window, known: Collection[str], earlier: list[Earlier]) -> Iterator[_Draft]:
    name = clean(turn.speaker).strip() or turn.role.value
    at = 0
    for piece in turn.pasted:
        yield from _from_words(turn, turn.text[at : piece.start], name, window, known, earlier)
        if piece.author:
            writer = name if piece.author.casefold() == name.casefold() else cut(clean(piece.author), MAX_LABEL)
            words = body_of(turn.text[piece.start : piece.end])
            yield from _from_words(turn, words, writer, window, known, [], own=False)
        else:
            yield from _as_it_is(turn, turn.text[piece.start : piece.end], f"{speaker(name)} sent the text", "")
        at = piece.end
    yield from _from_words(turn, turn.text[at:], name, window, known, earlier)


def _from_words(
    turn: WindowTurn,
    text: str,
    name: str,
    window: Window,
    known: Collection[str],
    earlier: list[Earlier],
    *,
    own: bool = True,
) -> Iterator[_Draft]:
    """What ``name`` says in a turn, or wrote in what it pastes."""
    listener = addressed(turn, window) if own else None
    found = list(sentences(text))
    if found and not is_english(text):
        yield from _as_it_is(turn, text, f"{speaker(name)} said", name)
        return
    for sentence in found:
        named = sentence if window.people is None else with_names(sentence, window.people)
        heard = named if listener is None else about_listener(named, listener)
        yield from _from_sentence(turn, sentence, heard, name, known, earlier)


def _from_result(turn: WindowTurn) -> Iterator[_Draft]:
    """What a tool measured: about nobody, whatever names are near it."""
    for result in results(turn.text):
        when = _dates(clean(result.quote))
        yield _draft(turn, cut(result.text, MAX_TEXT), result.quote, subject="", when=when, origin=Origin.ASSISTANT)


def _advice(sentence: str, listener: str) -> str:
    """What an accepted sentence of the assistant becomes, or nothing."""
    body = clean(_body(sentence)).strip()
    if len(body.split()) < 4:
        return ""
    return cut(f"{listener} accepted the assistant's suggestion: {body}", MAX_TEXT)


def _accepted(window: Window) -> Iterator[_Draft]:
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
            text = _advice(sentence, clean(reply.speaker)) if left else ""
            if text:
                left -= 1
                yield _draft(
                    source,
                    text,
                    sentence if said.cell else replied,
                    subject=clean(reply.speaker),
                    body=cut(clean(sentence), MAX_TEXT),
                    when=_dates(cut(clean(sentence), MAX_TEXT)),
                    origin=Origin.ASSISTANT,
                )


def _drafts(window: Window) -> list[_Draft]:
    by_turn: dict[int, list[_Draft]] = {turn.number: [] for turn in window.turns}
    for draft in _accepted(window):
        by_turn[draft.item.turns[0]].append(draft)
    spoken = [turn for turn in (*window.context, *window.turns) if turn.role is Role.USER]
    known = {name for turn in spoken if (name := clean(turn.speaker).strip())} | {window.owner}
    earlier: dict[str, list[Earlier]] = defaultdict(list)
    for turn in spoken:
        found = list(_from_turn(turn, window, known, earlier[turn.speaker]))
        if turn.number in by_turn:
            by_turn[turn.number].extend(found)
    for turn in window.turns:
        if turn.role is Role.TOOL:
            by_turn[turn.number].extend(_from_result(turn))
    drafts = [draft for turn in window.turns for draft in by_turn[turn.number]]
    if len(drafts) <= MAX_ITEMS:
        return drafts
    chosen = sorted(range(len(drafts)), key=lambda at: (-drafts[at].weight, at))[:MAX_ITEMS]
    return [drafts[at] for at in sorted(chosen)]


def _summary(window: Window, cell: int, drafts: list[_Draft]) -> CellSummary:
    texts = [draft.item.text for draft in drafts if draft.cell == cell]
    if not texts:
        texts = [
            turn_line(clean(turn.speaker), clean(first))
            for turn in window.turns
            if turn.cell == cell
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
    """The facts and cell summaries of a window (1 or more cells), the same for the same window.

    Every quote is a verbatim piece of its source turn. Raises nothing.
    """
    drafts = _drafts(window)
    cells = list(dict.fromkeys(turn.cell for turn in window.turns))[:MAX_WINDOW_TURNS]
    return ExtractionAnswer(
        items=[draft.item for draft in drafts], summaries=[_summary(window, cell, drafts) for cell in cells]
    )
