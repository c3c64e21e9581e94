"""Timelines: an entity, an attribute or a scene in, its ordered states with their evidence out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from memforest_core.domain.chain import ChainState, states_of, wrong_states
from memforest_core.domain.evidence import day_label
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.pages import invalid_cursor
from memforest_core.domain.people import People
from memforest_core.domain.state_names import canonical, spellings
from memforest_core.domain.state_order import Mention, Position, Role, Said, StoredState, placed
from memforest_core.domain.text import normalize_name
from memforest_core.domain.turns import checked_name, parse_timestamp
from memforest_core.errors import InvalidInput
from memforest_core.recall.records import TurnKey
from memforest_core.recall.rows.chains import TimelineRows
from memforest_core.recall.rows.recall_rows import RecallStore
from memforest_core.recall.states import SourceTurn, Timeline, TimelineState
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef

MAX_NAMED = 10
"""Names that an error lists."""
MAX_MENTIONS = 256
"""Mentions of one fact that are read: the first and the last ones."""

Chain = tuple[str, str]
"""One key for all names of a subject, and the attribute's own name."""


class Speakers:
    """Everybody who has spoken, under all names; ``owner_keys`` are the owner's (normalized)."""

    def __init__(self, owner: str, speakers: Iterable[tuple[str, str]]) -> None:
        self.people = People(owner, speakers)
        self.owner_keys: frozenset[str] = self.people.owner.keys

    def person(self, key: str) -> str:
        """One key for all names of a speaker; any other name is its own."""
        if key in self.owner_keys:
            return self.people.owner.key
        person = self.people.by_key(key)
        return key if person is None else person.key

    def keys(self, name: str) -> frozenset[str]:
        """The normalized names of whom or what is called so; a nickname or a mention means a speaker too."""
        person = self.people.who(name)
        return frozenset({normalize_name(name)}) if person is None else person.keys

    def named(self, words: str) -> frozenset[str]:
        """As ``keys``, for words of a question in lower case: a name or an id in full."""
        key = normalize_name(words)
        if key in self.owner_keys:
            return self.owner_keys
        person = self.people.by_key(key)
        return frozenset({key}) if person is None else person.keys


def unknown(name: str, what: str, known: Iterable[str]) -> InvalidInput:
    """No states are known of a subject, or of an attribute, or no scene has a label: what there is instead."""
    plural = {"entity": "Entities", "attribute": "Attributes", "scene": "Scenes"}[what]
    names = list(dict.fromkeys(known))
    rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    listed = f"{plural}: {', '.join(f'{each:.80}' for each in names[:MAX_NAMED])}{rest}."
    if not names:
        listed = f"{plural} appear once sessions are extracted: none are known yet."
    said = f"No scene is called {name!r:.80}." if what == "scene" else f"No states are known of {name!r:.80}."
    return InvalidInput(f"{said} {listed}", code=f"unknown_{what}")


def _attributes(of: Iterable[str]) -> Iterable[str]:
    return (canonical(attribute) for attribute in of if attribute)


def chains_of(
    rows: TimelineRows, facts: Sequence[StoredState], speakers: Speakers, as_of: datetime | None
) -> tuple[dict[Chain, list[ChainState]], list[ChainState]]:
    """The states of each chain, each chain in the order of time, and the states that were corrected.

    Nothing that was said after ``as_of`` counts; plans count that were due by then, or by now. Raises StoreUnavailable.
    """
    now = datetime.now(UTC) if as_of is None else as_of
    said: dict[FactId, list[Mention]] = defaultdict(list)
    for mention in rows.mentions([fact.id for fact in facts], as_of, MAX_MENTIONS):
        said[mention.fact_id].append(mention)
    chains: dict[Chain, list[Said]] = defaultdict(list)
    wrong: list[list[Said]] = []
    redated = _redated(facts)
    for fact in facts:
        said_facts = placed(replace(fact, redated=True) if fact.id in redated else fact, said[fact.id])
        if _known_wrong(fact, as_of):
            wrong.append(said_facts)
        else:
            chains[speakers.person(fact.subject_key), canonical(fact.attribute)].extend(said_facts)
    found = {chain: states_of(chain[1], each, now) for chain, each in chains.items()}
    return found, wrong_states(wrong, [state for states in found.values() for state in states])


def _redated(facts: Sequence[StoredState]) -> set[FactId]:
    """Facts that replace one of another time."""
    times = {fact.id: fact.statement.time for fact in facts}
    return {
        fact.superseded_by
        for fact in facts
        if fact.superseded_by in times and times[fact.superseded_by] != fact.statement.time
    }


def _known_wrong(fact: StoredState, as_of: datetime | None) -> bool:
    """Whether it had been corrected by then."""
    return fact.superseded_at is not None and (as_of is None or fact.superseded_at <= as_of)


MAX_LIMIT = 1_000
MAX_FACTS = 10_000
"""Facts that one timeline is made from; of more, the latest."""
MAX_TEXT_CHARS = 2_000
"""Of the text of each turn that is evidence."""
EVERYBODY = "*"
"""The entity that means all of them."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A checked request."""

    entity: str | None
    attribute: str | None
    scene: str | None
    as_of: datetime | None
    since: datetime | None
    until: datetime | None
    limit: int
    after: Position | None


def open_timeline(engine: Engine) -> TimelineService:
    """Over a connection pool: it needs no index and no models."""
    return TimelineService(RecallStore(engine))


@dataclass(frozen=True, slots=True)
class TimelineService:
    """Reads only, each timeline in one transaction and with a fixed number of statements. Thread-safe."""

    store: RecallStore

    def timeline(
        self,
        tenant: TenantId,
        owner: str,
        *,
        entity: str | None = None,
        attribute: str | None = None,
        scene: str | None = None,
        as_of: object | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Timeline:
        """The states of an entity, an attribute or a scene in the order of time, each with the turns that say so.

        ``entity`` is a name; without it the states are the owner's own, "*" is everybody. ``attribute`` is what is
        stated ("residence"), ``scene`` a scene's label or id; of several of these, the states that all of them name.
        ``as_of`` leaves out what was said later; ``since`` and ``until`` keep the states that happened or were
        mentioned in that time, both ends included (ISO 8601, unix seconds or datetimes, naive ones in the owner's
        zone). ``limit`` is the most states at once, 1 to 1,000; ``cursor`` is that of the page before. An owner without
        a memory yet has none, and ``owner_known`` is False. Raises InvalidInput (naming what is known),
        StoreUnavailable.
        """
        with self.store.reading(tenant) as rows:
            forest = rows.find_forest(checked_name(owner, "owner"))
            zone = ZoneInfo("UTC" if forest is None else forest.time_zone)
            wanted = _checked(entity, attribute, scene, (as_of, since, until), zone, limit, cursor)
            if forest is None:
                return Timeline(owner=owner, time_zone="UTC", states=(), owner_known=False)
            speakers = Speakers(owner, rows.speakers(forest.id))
            facts = _facts(rows, forest, wanted, speakers)
            found = _states(rows, facts[:MAX_FACTS], speakers, wanted)
            page, more = found[: wanted.limit], len(found) > wanted.limit
            keys = {key for state in page for mention in state.mentions for key in _turns(mention)}
            sources = rows.turns(keys, MAX_TEXT_CHARS)
        return Timeline(
            owner=owner,
            time_zone=forest.time_zone,
            states=tuple(_shown(state, sources, zone) for state in page),
            truncated=more,
            cursor=".".join(map(str, page[-1].position)) if more else None,
            oldest_left_out=len(facts) > MAX_FACTS,
        )


def _checked(
    entity: str | None,
    attribute: str | None,
    scene: str | None,
    times: tuple[object | None, object | None, object | None],
    zone: ZoneInfo,
    limit: int,
    cursor: str | None,
) -> _Wanted:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"Set limit to a whole number from 1 to {MAX_LIMIT}.", code="invalid_limit")
    as_of, since, until = (
        None if time is None else parse_timestamp(time, zone, name)
        for time, name in zip(times, ("as_of", "since", "until"), strict=True)
    )
    if since is not None and until is not None and until < since:
        raise InvalidInput("Set until to a time that is not before since.", code="invalid_range")
    return _Wanted(
        entity=None if entity is None else checked_name(entity, "entity"),
        attribute=None if attribute is None else checked_name(attribute, "attribute"),
        scene=None if scene is None else checked_name(scene, "scene"),
        as_of=as_of,
        since=since,
        until=until,
        limit=limit,
        after=None if cursor is None else _position(cursor),
    )


def _facts(rows: TimelineRows, forest: ForestRef, wanted: _Wanted, speakers: Speakers) -> list[StoredState]:
    """The facts that the request names, latest first; one more than ``MAX_FACTS`` when there are more."""
    if wanted.scene is not None:
        return _facts_of_scene(rows, forest, wanted, speakers)
    if wanted.entity != EVERYBODY:
        return _facts_of_subject(rows, forest, wanted, speakers)
    attributes = None if wanted.attribute is None else spellings(wanted.attribute)
    facts = rows.of_attributes(forest.id, attributes, MAX_FACTS + 1)
    if not facts and wanted.attribute is not None:
        raise unknown(wanted.attribute, "attribute", _attributes(chain.attribute for chain in rows.chains(forest.id)))
    return facts


def _facts_of_scene(rows: TimelineRows, forest: ForestRef, wanted: _Wanted, speakers: Speakers) -> list[StoredState]:
    name = wanted.scene or ""
    scenes = rows.scenes(forest.id)
    folded = name.strip().casefold()
    trees = [tree for tree, label in scenes if folded in {label.casefold(), str(tree), tree.hex}]
    if not trees:
        raise unknown(name, "scene", (label or str(tree) for tree, label in scenes))
    facts = rows.of_trees(trees, MAX_FACTS + 1)
    if wanted.entity is not None and wanted.entity != EVERYBODY:
        subjects = speakers.keys(wanted.entity)
        facts = [fact for fact in facts if fact.subject_key in subjects]
        if not facts:
            raise unknown(wanted.entity, "entity", (chain.subject for chain in rows.chains(forest.id)))
    if wanted.attribute is None:
        return facts
    same = spellings(wanted.attribute)
    of_attribute = [fact for fact in facts if fact.attribute in same]
    if not of_attribute:
        raise unknown(wanted.attribute, "attribute", _attributes(fact.attribute for fact in facts))
    return of_attribute


def _facts_of_subject(rows: TimelineRows, forest: ForestRef, wanted: _Wanted, speakers: Speakers) -> list[StoredState]:
    """The owner's facts, or those of whom or what is called so; "sister" also finds "Ann's sister"."""
    subjects = speakers.owner_keys if wanted.entity is None else speakers.keys(wanted.entity)
    attributes = None if wanted.attribute is None else spellings(wanted.attribute)
    facts = rows.of_subjects(forest.id, subjects, attributes, MAX_FACTS + 1)
    if facts or (wanted.entity is None and wanted.attribute is None):
        return facts
    chains = rows.chains(forest.id)
    own = [chain for chain in chains if chain.subject_key in subjects]
    if not own:
        words = set(normalize_name(wanted.entity or "").split())
        own = [chain for chain in chains if words and words <= set(chain.subject_key.split())]
        longer = {chain.subject_key for chain in own}
        facts = rows.of_subjects(forest.id, longer, attributes, MAX_FACTS + 1) if own else []
    if not own:
        raise unknown(wanted.entity or forest.owner, "entity", (chain.subject for chain in chains))
    if not facts:
        raise unknown(wanted.attribute or "", "attribute", _attributes(chain.attribute for chain in own))
    return facts


def _states(rows: TimelineRows, facts: Sequence[StoredState], speakers: Speakers, wanted: _Wanted) -> list[ChainState]:
    """The states of all chains in one order, those after the cursor and in the range; one more than the limit."""
    chains, wrong = chains_of(rows, facts, speakers, wanted.as_of)
    found = [*(state for states in chains.values() for state in states), *wrong]
    later = (state for state in found if wanted.after is None or state.position > wanted.after)
    return sorted((state for state in later if _in_range(state, wanted)), key=lambda state: state.position)


def _in_range(state: ChainState, wanted: _Wanted) -> bool:
    time = state.statement.time
    spans = [(mention.said_at, mention.said_at) for mention in state.mentions]
    if time.start is not None and time.end is not None:
        spans = [(time.start, time.end)]
    return any(
        (wanted.since is None or end >= wanted.since) and (wanted.until is None or start <= wanted.until)
        for start, end in spans
    )


def _turns(mention: Mention) -> Iterable[TurnKey]:
    return ((mention.session_id, ordinal) for ordinal in mention.turn_ordinals)


def _shown(state: ChainState, sources: Mapping[TurnKey, SourceTurn], zone: ZoneInfo) -> TimelineState:
    statement, mentions = state.statement, state.mentions
    keys = dict.fromkeys(key for mention in mentions for key in _turns(mention))
    return TimelineState(
        fact_id=state.id,
        subject=statement.subject,
        attribute=canonical(statement.attribute),
        value=statement.value,
        previous_value=statement.previous_value,
        text=statement.text,
        change=statement.change,
        polarity=statement.polarity,
        modality=statement.modality,
        time=state.time,
        time_label=day_label(state.time, zone),
        mentioned_at=mentions[0].said_at,
        last_mentioned_at=mentions[-1].said_at,
        known_since=min(each.fact.known_since for each in state.said),
        supersedes=tuple(dict.fromkeys(state.supersedes)),
        superseded_by=state.superseded_by,
        ended=state.ended,
        current=state.current,
        mentions=len(mentions),
        fact_ids=tuple(dict.fromkeys(each.fact.id for each in state.said)),
        evidence=tuple(sources[key] for key in keys if key in sources),
        corrected_at=state.said[0].fact.superseded_at if state.role is Role.WRONG else None,
        source=statement.source,
        quote=state.quote,
        planned=state.planned,
    )


def _position(cursor: str) -> Position:
    try:
        time, ordinal, item, fact = cursor.split(".")
        return int(time), int(ordinal), int(item), fact
    except (ValueError, AttributeError):
        raise invalid_cursor() from None
