"""Profiles as a context shows them: read by one statement while the facts are the same, written by a model at times.

A model's text of a profile would be out of date after nearly every turn of a chat. So it is written again at most once
in ``context.profile_every_s``. Between, its sentences are shown as long as all their facts hold, and what is new valid
below them as a list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from memforest_core.assistant.context.records import ContextPart, Omission, PartKind, Section, Why
from memforest_core.assistant.context.result import line_tokens
from memforest_core.assistant.context.rows import AtHand, ContextRows, Stamp, Subject, Wanted
from memforest_core.assistant.profile.describing import VERSION as PROFILE_VERSION
from memforest_core.assistant.profile.describing import Describer
from memforest_core.assistant.profile.people import Person
from memforest_core.assistant.profile.records import MAX_STATES, Made, Profile, ProfileSentence, ProfileState
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.errors import StoreUnavailable
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated

VERSION = 1
"""Of what is stored: another one is stored elsewhere."""


class Line(BaseModel):
    """One line of a portrait."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    facts: tuple[FactId, ...]
    """The facts that it rests on."""
    sentences: tuple[str, ...]
    """Their sentences."""
    digest: str = ""
    """The digest of days that it rests on too, where a model merged them."""


class StoredPortrait(BaseModel):
    """A portrait as it is stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: tuple[str, ...]
    """Names of whom it is about, normalized: by these the next read finds their facts."""
    stamp: str
    """Of the facts and settings that the lines were made from, hexadecimal."""
    lines: tuple[Line, ...]
    written: tuple[Line, ...]
    """The sentences that a model wrote last."""
    unmentioned: tuple[FactId, ...]
    """Facts that it was shown then and left out: they are not new."""
    written_at: AwareDatetime | None
    """When; None without a model."""
    whole: bool
    """The lines are what the model wrote last: nothing has come or gone since."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What is known of somebody now, line by line."""

    lines: tuple[Line, ...] = ()
    written: int = 0
    """So many of them, the first ones, a model wrote, what matters most first; the others are a list in the order of
    time."""
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """What one read found: whom it is about, what their facts are now, and what is stored."""

    subject: Subject
    stamp: Stamp
    stored: str | None


@dataclass(frozen=True, slots=True)
class Portraits:
    """Portraits of people. Thread-safe."""

    engine: Engine
    describer: Describer
    every: timedelta
    """A model writes a portrait at most once in this time."""

    def wanted(self, owner: str, session: str | None, channel: str | None, turns: int, about: str | None) -> Wanted:
        """What is to be read at once."""
        settings = self.describer.settings
        pinned = MAX_STATES + 1
        return Wanted(owner, session, channel, turns, about or owner, VERSION, settings.max_facts, pinned)

    def read(self, rows: ContextRows, found: AtHand, person: Person) -> Read:
        """What there is to know, within an open transaction: by no statement of its own where a profile is stored."""
        settings = self.describer.settings
        subject = Subject(found.forest.id, person.keys, found.key, settings.max_facts, MAX_STATES + 1)
        known = found.stored is not None and found.keys == person.keys
        return Read(subject, found.stamp if known else rows.stamp(subject), found.stored)

    def portrait(self, tenant: TenantId, found: AtHand, person: Person, read: Read) -> Portrait:
        """The lines: those that are stored when nothing has changed, else made. Raises StoreUnavailable."""
        if not read.stamp.facts:
            return Portrait()
        stamp, stored, now = self._stamp(found, person, read), _stored_portrait(read.stored), datetime.now(UTC)
        due = self._due(stored, now)
        if stored is not None and stored.stamp == stamp and (stored.whole or not due):
            return Portrait(stored.lines, len(stored.written))
        profile = self.describer.profile(tenant, found.forest.owner, None if person.owner else person.id, write=due)
        made, notes = _made(profile, stored, now), list(profile.degraded)
        if not notes:
            try:
                self._store(tenant, read, made.model_copy(update={"stamp": stamp, "keys": tuple(sorted(person.keys))}))
            except StoreUnavailable:
                notes.append("The profile could not be stored: Postgres was busy or unavailable.")
        return Portrait(made.lines, len(made.written), tuple(notes))

    def _due(self, stored: StoredPortrait | None, now: datetime) -> bool:
        """Whether a model may write."""
        if not self.describer.calls.possible:
            return False
        return stored is None or stored.written_at is None or now - stored.written_at >= self.every

    def _stamp(self, found: AtHand, person: Person, read: Read) -> str:
        """Of all that a portrait is made from."""
        calls, settings = self.describer.calls, self.describer.settings
        made_of = [
            *(VERSION, PROFILE_VERSION, calls.model, self.describer.system, settings.model_dump(mode="json")),
            *(found.forest.time_zone, found.forest.display_name, sorted(found.names)),
            # Plans come true by the day.
            *(person.name, read.stamp.digest.hex(), datetime.now(UTC).date().isoformat()),
        ]
        return hashlib.sha256(json.dumps(made_of, default=list).encode()).hexdigest()

    @repeated
    def _store(self, tenant: TenantId, read: Read, made: StoredPortrait) -> None:
        mentioned = {fact for line in (*made.lines, *made.written) for fact in line.facts}
        with ContextRows.opened(self.engine, tenant) as rows:
            rows.store(read.subject, made.model_dump_json(), mentioned, read.stamp.digest)


def _stored_portrait(text: str | None) -> StoredPortrait | None:
    """What is stored, if this program wrote it."""
    if text is None:
        return None
    try:
        return StoredPortrait.model_validate_json(text)
    except ValidationError:
        return None


def _made(profile: Profile, stored: StoredPortrait | None, now: datetime) -> StoredPortrait:
    """The portrait for a profile: a model's sentences, or those of before that still hold and a list of the rest."""
    current = {fact for state in profile.states for fact in state.fact_ids}
    if profile.made is Made.MODEL:
        lines = tuple(_line(sentence, profile.states) for sentence in profile.sentences)
        left = current - {fact for line in lines for fact in line.facts}
        # A text that was stored already was no call: the next one may come as soon as it could before.
        at = stored.written_at if profile.cached and stored is not None else now
        return StoredPortrait(
            keys=(), stamp="", lines=lines, written=lines, unmentioned=tuple(sorted(left)), written_at=at, whole=True
        )
    before, unmentioned, at = (
        ((), (), None) if stored is None else (stored.written, stored.unmentioned, stored.written_at)
    )
    valid = tuple(line for line in before if current.issuperset(line.facts))
    known = {*unmentioned, *(fact for line in valid for fact in line.facts)}
    new = tuple(_line(each, profile.states) for each in profile.sentences if known.isdisjoint(each.fact_ids))
    return StoredPortrait(
        keys=(), stamp="", lines=(*valid, *new), written=valid, unmentioned=unmentioned, written_at=at, whole=at is None
    )


def _line(sentence: ProfileSentence, states: Sequence[ProfileState]) -> Line:
    own = set(sentence.fact_ids)
    sentences = tuple(state.text for state in states if not own.isdisjoint(state.fact_ids))
    return Line(text=sentence.text, facts=sentence.fact_ids, sentences=sentences)


def profile_parts(portrait: Portrait, max_tokens: int) -> tuple[list[ContextPart], list[Omission], int]:
    """The lines that fit, in their order, what is left out, and the tokens taken.

    What a model wrote is taken from the beginning on, then the list: what began last first. The first one that does not
    fit ends it, so that with more tokens nothing is left out that was in before.
    """
    written, listed = portrait.lines[: portrait.written], portrait.lines[portrait.written :]
    parts = [
        ContextPart(
            Section.PROFILE,
            PartKind.SENTENCE,
            line.text,
            line_tokens(line.text),
            fact_ids=line.facts,
            digest_id=line.digest,
        )
        for line in (*written, *listed)
    ]
    order = [*range(len(written)), *range(len(parts) - 1, len(written) - 1, -1)]
    left, taken = max_tokens, set[int]()
    for at in order:
        if parts[at].tokens > left:
            break
        left -= parts[at].tokens
        taken.add(at)
    shown = [part for at, part in enumerate(parts) if at in taken]
    out = [
        Omission(Section.PROFILE, Why.BUDGET, part.tokens, part.fact_ids)
        for at, part in enumerate(parts)
        if at not in taken
    ]
    return shown, out, sum(part.tokens for part in shown)
