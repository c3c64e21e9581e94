"""From an untrusted answer to candidates: turns exist, quotes occur, dates are resolved by code.

What contradicts its own quote stays a statement and makes no state (``contradicted``, by the English rules for subject,
value, stance and denial). Where the rules can't tell, the item stays as the model gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.dates import looks_ahead, resolve
from memforest_core.domain.facts import Candidate, Change, Modality, Origin, Polarity, Source, Statement
from memforest_core.domain.grounding import Shown
from memforest_core.domain.ids import CellId
from memforest_core.domain.pasted import own_text
from memforest_core.domain.people import called, without_ids
from memforest_core.domain.rendering import one_line, speech
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import clean, normalize_name, sentences, terms
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.domain.turns import Role
from memforest_core.errors import ContentFault
from memforest_core.ingest.extract.extraction_prompt import (
    MAX_SHORT_CHARS,
    MAX_TURNS,
    SELF_QUOTED_CHARS,
    ExtractionAnswer,
    Item,
)
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.clause_states import subject_at
from memforest_core.ingest.extract.offline.english_text import is_english, is_kind, pattern
from memforest_core.ingest.extract.offline.person import spelled_out
from memforest_core.ingest.extract.offline.stance import is_asserted
from memforest_core.models.answer_reading import Faults

_SHAPES = {"age": kinds.age, "weight": kinds.weight}
_DENYING = frozenset({"allergy", "diet", "preference"})


def contradicted(item: Item, quote: str, speaker: str) -> bool:
    """Whether a quote says otherwise than the state that an item sets; False for an item without one."""
    attribute, value = canonical(item.attribute), clean(item.value).strip()
    if not attribute or not value or item.modality is not Modality.ASSERTED:
        return False
    if value.casefold() in {"true", "false", "yes", "no", "none", "null", "unknown", "n/a"}:
        return True
    shape = _SHAPES.get(attribute)
    if shape is not None and any(char.isalpha() for char in value) and not any(char.isdigit() for char in value):
        return True
    if attribute in {"residence", "hometown"} and is_kind(value, "not a place"):
        return True
    said = _sentence(quote, value)
    if not said or not is_english(said):
        return False
    at = said.casefold().find(value.casefold())
    start = max((found.end() for found in pattern("BOUNDARY").finditer(said, 0, max(at, 0))), default=0)
    clause = said[start:at] if at >= 0 else said
    if not is_asserted(said, 0, max(at, 0) + len(value)) or pattern("SAIDBY").search(said[:start]):
        return True
    if item.change is Change.STOP:
        return _of_somebody_else(said, start, item, speaker)
    denying = pattern("DENIEDVALUE" if attribute in _DENYING else "DENIED")
    denied = item.polarity is Polarity.POSITIVE and denying.search(clause) is not None
    unsure = pattern("UNCERTAIN").search(clause) is not None or (at >= 0 and pattern("OVER").search(clause) is not None)
    return denied or unsure or _of_somebody_else(said, start, item, speaker)


def _of_somebody_else(said: str, start: int, item: Item, speaker: str) -> bool:
    """Whether the clause begins with somebody else, though the item is about the speaker."""
    if normalize_name(item.subject) not in {"", "user", "i", "me", normalize_name(speaker)}:
        return False
    subject = subject_at(said, start, speaker)
    return pattern("SOMEBODY").match(said, start) is not None if subject is None else subject.name != speaker


def _sentence(quote: str, value: str) -> str:
    """The sentence of a quote that has a value, as it would be spelled; the whole quote where none has it."""
    said = spelled_out(clean(quote).strip())
    return next((one for one in sentences(said) if value.casefold() in one.casefold()), said)


MAX_VERBATIM_CHARS = 2_000
REWORDED = 2 / 3
"""Share of a quote's terms in its turns from which it is taken for reworded, not invented."""
QUOTED_TERMS = 3
"""A quote of so many terms ties an item to its turns, in whatever language its text is."""
_FOREIGN = "had nothing of these turns"
SPEAKER_WORDS = {"user", "the user", "i", "me", "speaker", "the speaker"}


def _squeezed(text: str) -> str:
    return " ".join(clean(text).split()).casefold()


def sourced(answer: ExtractionAnswer, window: Window) -> tuple[ExtractionAnswer, Faults]:
    """The answer without turns that are not there and items of no turn, and how many those were. An item that names no
    turn is of those that it quotes, or of the only one."""
    numbers = {turn.number for turn in window.turns}

    def of(item: Item) -> list[int]:
        if item.turns:
            return [number for number in item.turns if number in numbers]
        quote = clean(item.quote)
        quoted = [turn.number for turn in window.turns if quote and _quoted(quote, clean(turn.text))]
        return quoted or (list(numbers) if len(numbers) == 1 else [])

    items = [item.model_copy(update={"turns": turns[:MAX_TURNS]}) for item in answer.items if (turns := of(item))]
    lost = len(answer.items) - len(items)
    return answer.model_copy(update={"items": items}), Faults({"items named no turn to extract from": lost})


def grounded(answer: ExtractionAnswer, window: Window) -> tuple[ExtractionAnswer, Faults]:
    """The answer without items and summaries that are not about this window, and how many those were. Such an item is
    an invention, or belongs to another call. The turns must be there: see ``sourced``. Raises ContentFault when that is
    most of an answer: the model is shown the sentence."""
    turns = (*window.context, *window.turns)
    names = {window.owner, *(turn.speaker for turn in turns)}
    shown = Shown([turn.text for turn in turns], names)
    items = [each for each in answer.items if shown.has(each.text, each.value) or _is_quoted(each, window)]
    cells = {
        cell: Shown([turn.text for turn in turns if turn.cell == cell], names) for cell in range(1, window.cells + 1)
    }
    summaries = [each for each in answer.summaries if each.cell in cells and cells[each.cell].has(each.text)]
    strange = len(answer.items) - len(items)
    if 2 * strange > len(answer.items):
        raise ContentFault(
            f"{strange} of {len(answer.items)} items are not about the turns to extract from: say only what these turns"
            ' say, in their language, and copy a "quote" of some words for each item'
        )
    lost = Faults({f"items {_FOREIGN}": strange, f"summaries {_FOREIGN}": len(answer.summaries) - len(summaries)})
    return answer.model_copy(update={"items": items, "summaries": summaries}), lost


def _is_quoted(item: Item, window: Window) -> bool:
    quote = clean(item.quote)
    return len(terms(quote)) >= QUOTED_TERMS and any(_quoted(quote, clean(turn.text)) for turn in window.turns)


def completed(answer: ExtractionAnswer, window: Window) -> ExtractionAnswer:
    """An answer of a model with what it may leave out: the speaker of an item's first turn, that it is about them, and
    a quote where one short turn says it. A state that its quote contradicts is none, nor one that is only pasted. The
    turns must be there: see ``sourced``."""
    turns = {turn.number: turn for turn in window.turns}

    def whole(item: Item) -> Item:
        first = turns[min(item.turns)]
        speaker = item.speaker or first.speaker
        subject = item.subject if "subject" in item.model_fields_set else speaker
        short = len(item.turns) == 1 and len(first.text) <= SELF_QUOTED_CHARS
        quote = item.quote or (first.text if short else "")
        item = item.model_copy(update={"speaker": speaker, "subject": subject, "quote": quote})
        if item.attribute and (_borrowed(item, first) or contradicted(item, quote or first.text, first.speaker)):
            return item.model_copy(update={"attribute": "", "value": "", "previous_value": "", "change": Change.NONE})
        return item

    return answer.model_copy(update={"items": [whole(item) for item in answer.items]})


def _borrowed(item: Item, turn: WindowTurn) -> bool:
    """Whether a turn has an item's value only in what somebody else wrote, without being about that writer."""
    value = item.value.casefold()
    about_writer = any(piece.author and piece.author.casefold() == item.subject.casefold() for piece in turn.pasted)
    there = bool(value) and value in turn.text.casefold()
    return there and not about_writer and value not in own_text(turn.text, turn.pasted).casefold()


def _quoted(quote: str, text: str) -> str:
    """The piece of a text that a quote means, empty if there is none: the quote itself, or what is between its
    first and its last words, with them, where it has "..." between those."""
    if _squeezed(quote) in _squeezed(text):
        return quote
    first, dots, last = quote.replace("\N{HORIZONTAL ELLIPSIS}", "...").partition("...")
    begins, ends = (" ".join(part.split()).lower() for part in (first, last))
    if not dots or not begins or not ends:
        return ""
    plain = " ".join(text.split())
    lower = plain.lower()
    start = lower.find(begins)
    end = lower.find(ends, start + len(begins)) if start >= 0 else -1
    # Where lower case has other lengths, positions in it are not positions in the text.
    if end < 0 or len(lower) != len(plain):
        return ""
    return plain[start : end + len(ends)][:MAX_SHORT_CHARS]


def _sources(item: Item, window: Window) -> tuple[list[WindowTurn], str] | None:
    """The turns an item rests on and its quote, if it occurs in them; None when no turn says what it quotes. A quote
    narrows the sources to the turns that hold it: among the named ones, else among all of the window. One that is only
    reworded (most of its terms are in the named turns) is left out, and the named turns stay."""
    named = [turn for turn in window.turns if turn.number in item.turns]
    quote = clean(item.quote).strip()
    if not _squeezed(quote):
        return named, ""
    for turns in (named, window.turns):
        holders = [(turn, piece) for turn in turns if (piece := _quoted(quote, clean(turn.text)))]
        if holders:
            return [turn for turn, _ in holders], holders[0][1]
    said = frozenset(term for turn in named for term in terms(turn.text))
    quoted = frozenset(terms(quote))
    reworded = quoted and len(quoted & said) >= REWORDED * len(quoted)
    return (named, "") if reworded else None


def _speaker(item: Item, window: Window, first: WindowTurn) -> str:
    """The speaker: one of the window's; any other name is the model's invention."""
    name, turns = _squeezed(item.speaker), (first, *window.turns, *window.context)
    for turn in turns:
        if _squeezed(turn.speaker) == name:
            return turn.speaker
    person = window.people.who(item.speaker) if window.people is not None else None
    if person is not None:
        return next((turn.speaker for turn in turns if called(turn.speaker, person)), first.speaker)
    return first.speaker


def _subject(item: Item, window: Window, first: WindowTurn) -> str:
    """Whom the item is about; models that write "user" or "I" mean the speaker."""
    subject = clean(item.subject).strip()
    return first.speaker if subject.casefold() in SPEAKER_WORDS else _name(subject, window)


def _name(name: str, window: Window) -> str:
    """A name as it is known: for a mention or a nickname that of the speaker, the id where others have the name."""
    people = window.people
    if people is None:
        return name
    if people.called(normalize_name(name)) is not None:
        return name.removeprefix("@")
    person = people.who(name)
    if person is None:
        return name
    known = person.spelled(name)
    return person.id if people.shared(known) else known


def _without_ids(text: str, window: Window) -> str:
    return text if window.people is None else without_ids(text, window.people)


def to_candidates(
    answer: ExtractionAnswer, window: Window, cells: Mapping[int, CellId], source: Source = Source.MODEL
) -> list[Candidate]:
    """Candidates of a checked answer, which ``source`` gave; ``cells`` maps the window's cell numbers to ids. An item
    belongs to the cell of its first source turn; its item number counts within that cell. An item whose quote no turn
    has is left out: it is an invention, and its turns are remembered anyway."""
    taken: dict[int, int] = {}
    candidates: list[Candidate] = []
    for item in answer.items:
        text = one_line(_without_ids(clean(item.text), window))
        found = _sources(item, window) if text else None
        if found is None:
            continue
        sources, quote = found
        first = sources[0]
        number = taken.get(first.cell, 0)
        taken[first.cell] = number + 1
        when = clean(item.when).strip()
        ahead = looks_ahead(quote, when)
        if ahead is None:
            ahead = True if item.modality is Modality.PLANNED else looks_ahead(text, when)
        span = resolve(when, first.occurred_at, window.time_zone, future=ahead, clock=first.occurred_at.tzinfo)
        candidates.append(
            Candidate(
                cell_id=cells[first.cell],
                item=number,
                turn_ordinals=tuple(sorted({turn.ordinal for turn in sources})),
                quote=quote,
                statement=Statement(
                    text=text,
                    time=span,
                    mentioned_at=first.occurred_at,
                    speaker=_speaker(item, window, first),
                    subject=_subject(item, window, first),
                    attribute=clean(item.attribute).strip().casefold(),
                    value=_without_ids(clean(item.value).strip(), window),
                    previous_value=_without_ids(clean(item.previous_value).strip(), window),
                    change=item.change,
                    polarity=item.polarity,
                    modality=item.modality,
                    entities=tuple(
                        dict.fromkeys(_name(name, window) for raw in item.entities if (name := clean(raw).strip()))
                    ),
                    scene=clean(item.scene).strip().casefold(),
                    origin=item.origin,
                    source=source,
                ),
            )
        )
    return candidates


def verbatim(window: Window, cells: Mapping[int, CellId]) -> list[Candidate]:
    """The stop-gap when no answer could be used: every turn is stored word by word, and marked."""
    taken: dict[int, int] = {}
    candidates: list[Candidate] = []
    for turn in window.turns:
        if turn.role is Role.SYSTEM:
            continue
        number = taken.get(turn.cell, 0)
        taken[turn.cell] = number + 1
        candidates.append(
            Candidate(
                cell_id=cells[turn.cell],
                item=number,
                turn_ordinals=(turn.ordinal,),
                quote="",
                statement=Statement(
                    text=speech(turn.speaker, turn.text)[:MAX_VERBATIM_CHARS],
                    time=UNKNOWN_TIME,
                    mentioned_at=turn.occurred_at,
                    speaker=turn.speaker,
                    subject=turn.speaker,
                    origin=Origin.ASSISTANT if turn.role is Role.ASSISTANT else Origin.USER,
                    verbatim=True,
                ),
            )
        )
    return candidates


def as_said(window: Window, cells: Mapping[int, CellId]) -> list[Candidate]:
    """The words of a note in which nothing was found, as facts about who it is about."""
    said = {turn.ordinal: turn.text[:MAX_VERBATIM_CHARS] for turn in window.turns}
    return [
        replace(each, quote=said[each.turn_ordinals[0]], statement=replace(each.statement, verbatim=False))
        for each in verbatim(window, cells)
    ]
