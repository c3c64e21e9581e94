"""The request of a recall: a question or a vector with its options, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from numbers import Real
from typing import Any, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from memforest_core.domain.conditions import Test, parse_conditions
from memforest_core.domain.evidence import Mode
from memforest_core.domain.ids import TreeKind
from memforest_core.domain.temporal_question import lists_all
from memforest_core.domain.turns import Role, checked_name, parse_timestamp
from memforest_core.errors import InvalidInput
from memforest_core.index.vector_index import DenseVector
from memforest_core.recall.question import Question, parse_question
from memforest_core.recall.records import TurnHead
from memforest_core.settings import RecallSettings

MAX_K = 1_000
MAX_NEIGHBOURS = 20
MAX_TOKENS = 1_000_000
MAX_NAMES = 1_000
"""Sessions, speakers, roles or channels that one recall may be limited to."""
MAX_OWNERS = 16
"""Forests of one recall: each costs as much as a recall of its own."""
MAX_SOURCES = 8
"""External collections of one recall."""

Choice = TypeVar("Choice", bound=StrEnum)
Range = tuple[datetime | None, datetime | None]
"""The first and last moment; None is open."""
ALWAYS: Range = (None, None)
WORDLESS = Question("", (), frozenset())
"""The question of a recall by a vector: it has no words, and names nobody and no time."""
BY_VECTOR = (Mode.AUTO, Mode.FLAT, Mode.EMBEDDING)
"""Modes that call no model."""


class RecallOptions(TypedDict, total=False):
    """Keyword options of a recall. Times are ISO 8601, unix seconds or datetimes; naive ones have the forest's zone."""

    neighbours: int
    """Items before and after each: in its entity's tree, or in the dialogue for a bare turn."""
    max_tokens: int | None
    """Estimated tokens of all items with their date headers; without ``k``, as many items as fit."""
    since: object | None
    """Only what was said, or happened, at or after this time."""
    until: object | None
    """Only what was said, or happened, at or before this time."""
    between: tuple[object, object] | None
    """``since`` and ``until`` in one."""
    as_of: object | None
    """Answers from what had been said by this time."""
    asked_at: object | None
    """The timestamp of the question, now unless given: "last week" is counted from it."""
    budget_ms: float | None
    """How long the caller can wait; ``auto`` picks a mode that fits."""
    session_id: str | None
    """The running session of the question: a follow-up is read with its last turns."""
    sessions: Sequence[str] | None
    """These sessions only."""
    exclude_sessions: Sequence[str] | None
    """Leaves these sessions out, such as the running one; names that nothing is stored under leave nothing out."""
    min_score: float | None
    """Leaves out items that score less. Scores order the items of one question; what is much differs by question."""
    speakers: Sequence[str] | None
    """Only what these speakers said, by id or display name."""
    roles: Sequence[str] | None
    """Only what was said in these roles."""
    metadata: Mapping[str, object] | None
    """Only turns whose metadata (or their session's, where theirs are silent) fulfil these conditions: values, or
    ``{"price": {"$lt": 9}}`` and the like; see ``domain.conditions``."""
    trees: Sequence[str] | None
    """Families of trees that take part: session, entity, scene; the setting recall.trees unless given. Those of
    sessions vote; all are browsed in the modes llm and planner."""
    channels: Sequence[str] | None
    """Sessions of these channels only; a session without a channel is in none."""
    vector: Sequence[float] | NDArray[Any] | None
    """Instead of a question: what is near this vector of the embedding model. Words take no part then."""
    owners: Sequence[str] | None
    """Further owners: one recall over at most 16 forests, scored together; ``Evidence.owner`` says whose a piece is."""
    sources: Sequence[str] | None
    """Names of the external collections (setting recall.sources) that are searched in addition; at most 8."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which turns may be evidence, and which time the question is about."""

    between: Range = ALWAYS
    """When evidence was said, or when its facts happened."""
    said_until: datetime | None = None
    """What was said after this timestamp is not known yet; None for no limit."""
    sessions: frozenset[UUID] | None = None
    excluded: frozenset[str] = frozenset()
    """The caller's ids of sessions that are left out."""
    speakers: frozenset[str] = frozenset()
    """Ids or display names, casefolded; empty for anybody."""
    roles: frozenset[str] = frozenset()
    about: Range = ALWAYS
    """The time that the question names; what lies in it is lifted."""
    channels: frozenset[str] = frozenset()
    """Channels of sessions; empty for all sessions."""

    @property
    def limited(self) -> bool:
        """Whether there are turns that ``allow`` refuses."""
        named = (self.excluded, self.channels, self.roles, self.speakers)
        return self.said_until is not None or self.sessions is not None or any(named)

    def allow(self, head: TurnHead) -> bool:
        """Whether a turn may be evidence, as far as that does not depend on its facts."""
        return (
            (self.said_until is None or head.occurred_at <= self.said_until)
            and (self.sessions is None or head.session_id in self.sessions)
            and head.session_external_id not in self.excluded
            and (not self.channels or head.channel in self.channels)
            and (not self.roles or head.role in self.roles)
            and (not self.speakers or not self.speakers.isdisjoint({head.speaker_id.casefold(), head.name.casefold()}))
        )


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request. Its times are read later, in the forest's time zone."""

    question: Question
    k: int
    mode: Mode
    neighbours: int
    max_tokens: int | None
    budget_ms: float | None
    session_id: str | None
    sessions: tuple[str, ...]
    exclude_sessions: frozenset[str]
    min_score: float | None
    speakers: frozenset[str]
    roles: frozenset[str]
    metadata: Test | None
    trees: frozenset[TreeKind]
    since: object | None
    until: object | None
    as_of: object | None
    asked_at: object | None
    channels: tuple[str, ...] = ()
    vector: object | None = None
    owners: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    list_more: int = 0
    """Items more for a question for all of several things; none where the caller said how many."""

    def with_question(self, question: Question) -> Request:
        """The same of another question."""
        more = self.list_more * (lists_all(question.text) - lists_all(self.question.text))
        return replace(self, question=question, k=min(MAX_K, self.k + more))

    @property
    def session_trees(self) -> bool:
        """Whether nodes of session trees vote for what is below them."""
        return self.mode is not Mode.FLAT and TreeKind.SESSION in self.trees

    @property
    def filters_after(self) -> bool:
        """Whether turns are left out by what the index can't filter by: session, speaker, role or metadata."""
        return bool(self.speakers or self.roles or self.metadata is not None or self.exclude_sessions)

    def between(self, zone: ZoneInfo) -> Range:
        """The time that evidence must lie in. Raises InvalidInput."""
        first = _moment(self.since, zone, "since")
        last = _moment(self.until, zone, "until")
        if first is not None and last is not None and last < first:
            raise InvalidInput("Set until to a time that is not before since.", code="invalid_range")
        return first, last

    def said_until(self, zone: ZoneInfo) -> datetime | None:
        """What was said after this timestamp counts as not said yet; None for no limit. Raises InvalidInput."""
        return _moment(self.as_of, zone, "as_of")

    def timestamp(self, zone: ZoneInfo) -> datetime:
        """The timestamp of the question, in the forest's zone: ``asked_at``, else ``as_of``, else now."""
        given = self.as_of if self.asked_at is None else self.asked_at
        found = _moment(given, zone, "asked_at") or datetime.now(UTC)
        return found.astimezone(zone)


def parse_request(
    settings: RecallSettings, question: object, k: object, mode: object, options: Mapping[str, object]
) -> Request:
    """The request that a caller's arguments make. Raises InvalidInput, TypeError for an option that does not exist."""
    unknown = options.keys() - RecallOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"recall() has no option {min(unknown)!r}")
    max_tokens = _whole(options.get("max_tokens"), "max_tokens", 1, MAX_TOKENS)
    wanted = _whole(k, "k", 1, MAX_K)
    since, until = options.get("since"), options.get("until")
    between = options.get("between")
    if between is not None:
        if since is not None or until is not None or not isinstance(between, Sequence) or len(between) != 2:
            raise InvalidInput("Give between as a pair of times, without since and until.", code="invalid_range")
        since, until = between
    session, vector = options.get("session_id"), options.get("vector")
    if (question is None) == (vector is None):
        raise InvalidInput("Ask a question or give a vector, one of the two.", code="invalid_vector")
    roles = _names(options.get("roles"), "roles")
    chosen = _one_of(settings.mode if mode is None else mode, Mode, "mode to one", "invalid_mode")
    if vector is not None and chosen not in BY_VECTOR:
        raise InvalidInput(
            f"Ask a question for mode {chosen}: a vector has no words that a model could read. Modes of a vector are"
            f" {', '.join(BY_VECTOR)}.",
            code="invalid_mode",
        )
    parsed = WORDLESS if vector is not None else parse_question(question)
    more = settings.list_more if max_tokens is None and wanted is None else 0
    most = max(settings.k + more * lists_all(parsed.text), (max_tokens or 0) // 4)
    trees = settings.trees if options.get("trees") is None else _names(options.get("trees"), "trees")
    return Request(
        question=parsed,
        k=min(MAX_K, most) if wanted is None else wanted,
        mode=chosen,
        neighbours=_whole(options.get("neighbours"), "neighbours", 0, MAX_NEIGHBOURS) or 0,
        max_tokens=max_tokens,
        budget_ms=_number(options.get("budget_ms"), "budget_ms", "a number of milliseconds above 0", 0.0),
        session_id=None if session is None else checked_name(session, "session_id"),
        sessions=_names(options.get("sessions"), "sessions"),
        exclude_sessions=frozenset(_names(options.get("exclude_sessions"), "exclude_sessions")),
        min_score=_number(options.get("min_score"), "min_score", "a finite number", float("-inf")),
        speakers=frozenset(name.casefold() for name in _names(options.get("speakers"), "speakers")),
        roles=frozenset(_one_of(name, Role, "roles to some", "unknown_role").value for name in roles),
        metadata=None if (given := options.get("metadata")) in (None, {}) else parse_conditions(given),
        trees=frozenset(_one_of(name, TreeKind, "trees to some", "invalid_trees") for name in trees),
        since=since,
        until=until,
        as_of=options.get("as_of"),
        asked_at=options.get("asked_at"),
        channels=_some(options.get("channels"), "channels", MAX_NAMES),
        vector=vector,
        owners=_some(options.get("owners"), "owners", MAX_OWNERS),
        sources=_some(options.get("sources"), "sources", MAX_SOURCES),
        list_more=more,
    )


def owners_of(owner: object, more: tuple[str, ...]) -> tuple[str, ...]:
    """The owners of one recall, each once, ``owner`` first if there is one. Raises InvalidInput."""
    names = more if owner is None else (checked_name(owner, "owner"), *more)
    owners = tuple(dict.fromkeys(names))
    if not owners:
        raise InvalidInput("Say whose memory is searched: give owner, or owners.", code="missing_owner")
    if len(owners) > MAX_OWNERS:
        raise InvalidInput(f"Ask at most {MAX_OWNERS} owners at once ({len(owners)} are given).", code="invalid_owners")
    return owners


def _whole(value: object, name: str, least: int, most: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"Set {name} to a whole number from {least} to {most}.", code=f"invalid_{name}")
    return value


def _number(value: object, name: str, what: str, above: float) -> float | None:
    """A finite number larger than ``above``. Raises InvalidInput."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not above < value < float("inf"):
        raise InvalidInput(f"Set {name} to {what}.", code=f"invalid_{name}")
    return float(value)


def _one_of(value: object, choices: type[Choice], what: str, code: str) -> Choice:
    try:
        return choices(str(value))
    except ValueError:
        raise InvalidInput(f"Set {what} of {', '.join(choices)}.", code=code) from None


def _some(value: object, what: str, most: int) -> tuple[str, ...]:
    """Names, each once; none for None. An empty list could mean all or nothing, so it is refused."""
    if value is None:
        return ()
    names = tuple(dict.fromkeys(_names(value, what)))
    if not names or len(names) > most:
        raise InvalidInput(f"Give {what} as a list of 1 to {most} names, or leave it out.", code=f"invalid_{what}")
    return names


def _names(value: object, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset) or len(value) > MAX_NAMES:
        raise InvalidInput(f"Give {what} as a list of at most {MAX_NAMES} names.", code=f"invalid_{what}")
    return tuple(checked_name(name, what) for name in value)


def _moment(value: object | None, zone: ZoneInfo, name: str) -> datetime | None:
    return None if value is None else parse_timestamp(value, zone, name)


def touches(spans: Sequence[tuple[datetime, datetime]], wanted: Range) -> bool:
    """Whether any of these times, from first to last moment, touches the wanted time."""
    first, last = wanted
    return any((last is None or start <= last) and (first is None or end >= first) for start, end in spans)


def checked_vector(given: object, dimension: int) -> DenseVector:
    """The vector in what a caller sent: a list, a tuple or an array of ``dimension`` finite numbers, not all 0.

    Raises InvalidInput.
    """
    if isinstance(given, np.ndarray):
        given = given.tolist()
    wanted = f"a list of {dimension} finite numbers, the dimension of the embedding model, not all 0"
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidInput(f"Give vector as {wanted}.", code="invalid_vector")
    try:
        plain = all(isinstance(each, Real) and not isinstance(each, bool) for each in given)
        with np.errstate(over="ignore"):
            vector = np.array(given if plain else (), dtype=np.float32)
    except OverflowError:
        vector = np.array((), dtype=np.float32)
    if vector.shape != (dimension,) or not bool(np.isfinite(vector).all()) or not bool(vector.any()):
        raise InvalidInput(f"Give vector as {wanted} (it has {len(given)} entries).", code="invalid_vector")
    return vector
