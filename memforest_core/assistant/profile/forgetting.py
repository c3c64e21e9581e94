"""Forgetting by words: facts that they may mean are found and chosen, then deleted by the usual operations."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import get_args
from uuid import UUID

from pydantic import BaseModel

from memforest_core.assistant.checked_calls import CheckedCalls, numbered
from memforest_core.assistant.profile.persons import alias_in, person_named
from memforest_core.assistant.profile.records import Forgetting, FoundFact, Made, SaidIn, Turns
from memforest_core.assistant.profile.rows import NearFact, ProfileRows, Saying
from memforest_core.domain.grounding import alike
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.languages import language_of
from memforest_core.domain.people import KnownPerson, People, found_in
from memforest_core.domain.periods import MONTH, WEEKDAY
from memforest_core.domain.state_names import single_valued
from memforest_core.domain.state_order import StoredState
from memforest_core.domain.temporal_question import current_attributes
from memforest_core.domain.text import clipped, normalize_name, terms
from memforest_core.domain.turns import checked_actor, checked_name
from memforest_core.domain.words import ENGLISH
from memforest_core.errors import ContentFault, InvalidInput, ModelRejected, ModelUnavailable, NotFound
from memforest_core.lifecycle.erase.service import Erasure
from memforest_core.models.calls import Embedder, Vectors
from memforest_core.recall.service import RecallService
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef, known
from memforest_core.work.operations import Operations
from memforest_core.work.records import TaskId
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S, Steps

MAX_STATES = 500
"""Facts that are read of the states that words ask for; of more, the latest."""

_QUERY = re.compile(
    r"^(?:about\s+)?(?:where|what|which|who|whom|whose|how|when|my|our|his|her|their|\w+['\u2019]s)\b", re.IGNORECASE
)
"""Words that name a state ("where I work", "my job"), and do not tell something of it ("that I like my job")."""
_QUESTION = re.compile(r"^(?:about\s+)?(?:where|what|which|who|whom|whose|how|when)\b", re.IGNORECASE)
_THAT = re.compile(r"^\s*(?:(?:that|da(?:ss|ß)|que)\s+|qu')", re.IGNORECASE)
_DATE = re.compile(rf"(?:{MONTH}|{WEEKDAY})", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['\u2019]\w+)?")
_FIRST_PERSON = ENGLISH.first_person.words
_ALL = re.compile(r"\b(?:all|every|everything)\b", re.IGNORECASE)
_GENERIC = frozenset(
    terms("be have own get live move work study like love enjoy hate prefer want go visit see know call name buy")
)
"""Verbs that another verb can stand for: where a model chooses, the other words decide."""
_IDLE = {*_FIRST_PERSON, "i'm", "i've", "i'd", "i'll"}


@dataclass(frozen=True, slots=True)
class Found:
    """The facts that words may mean, the nearest first."""

    facts: tuple[FoundFact, ...]
    sure: frozenset[FactId]
    """Those that say all that the words say, or are the state that they ask for: chosen without a model."""
    likely: frozenset[FactId]
    """Those that say all but perhaps its verb: a model may choose among them."""
    ambiguous: bool
    """What is sure is not one thing: two people's, or two values of what may have several."""
    writer: str
    """What whom "I" means is called."""
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meant:
    """What words say about what they mean."""

    text: str
    terms: frozenset[str]
    names: frozenset[str]
    """Terms of capitalized words: a fact that they mean has all of them."""
    people: frozenset[str]
    """Normalized names of those whom the words are about: the owner unless they name somebody."""
    others: frozenset[str]
    """Normalized names of speakers whom they are not about."""
    attributes: frozenset[str]
    """Names of the states that they ask for."""
    bare: bool
    """They are a question of one term ("where I work"): a fact that has it need not be what they mean."""
    first_person: bool
    """They say I or my: a fact about somebody else has to be named."""
    stated_attributes: frozenset[str]
    """Names of the states that they tell or ask for."""


def read_words(
    words: str, forest: ForestRef, speakers: Collection[tuple[str, str]], writer: str | None = None
) -> Meant:
    """What words that somebody else wrote to the memory mean: "where I work", "that Ann moved to Miami" (English).
    ``writer`` is whom "I" means; None is the owner."""
    people = People(forest.owner, speakers, forest.display_name)
    owner = person_named(forest.owner, forest, speakers, writer)
    others = [each for each in people.everybody if each.id != owner.id]
    meant = {one.person.id for one in found_in(words, people)}
    folded = f" {normalize_name(words)} "
    named = [each for each in others if each.id in meant or _names(folded, each)]
    about = _keys([*named, owner] if _first_person(words) or not named else named)
    spoken = {term for each in [owner, *others] for key in each.keys for term in terms(key)}
    own = frozenset(terms(words))
    return Meant(
        text=words,
        terms=own - spoken,
        names=frozenset(term for word in _capitalized(words) for term in terms(word)),
        people=about,
        others=_keys(others) - about,
        attributes=current_attributes(f"{words} now") if _QUERY.match(words.strip()) else frozenset(),
        bare=_QUESTION.match(words.strip()) is not None and len(own - spoken) < 2,
        first_person=_first_person(words),
        stated_attributes=current_attributes(f"{words} now"),
    )


def _is_meant(state: StoredState, meant: Meant) -> bool:
    """Whether words that ask for an attribute mean this state of it: "my dog" is not the cat, though both are pets."""
    return single_valued(state.attribute) or meant.terms.issubset(terms(f"{state.attribute} {state.statement.text}"))


def _similarity(fact: NearFact, meant: Meant, states: frozenset[UUID], vector: Vectors | None) -> float:
    """How near a fact is to words, 0 to 1.

    0 for one about another speaker, or without a name that the words have ("Miami": Madrid is as near by cosine);
    1 for a state that is meant; else the larger of the cosine and of the share of their terms that the fact has.
    That share counts for nothing where the words ask for a state alone: "I work on the weekend" is no job.
    """
    said = f"{fact.statement.subject} {fact.statement.text}"
    has = frozenset(terms(said))
    if fact.subject_key in meant.others or not meant.names <= has:
        return 0.0
    if fact.id in states:
        return 1.0
    shared = len(meant.terms & has) / len(meant.terms) if meant.terms and not meant.bare else 0.0
    cosine = float(vector @ fact.vector) if vector is not None and fact.vector is not None else 0.0
    return round(min(1.0, max(shared, cosine, 0.0)), 4)


def _says(fact: NearFact, meant: Meant, ignored: frozenset[str]) -> bool:
    """Whether a fact says what the words say: all of them but names and ``ignored``, of which one at least; or the
    attribute and the value. A name alone is no match: every fact about somebody has it."""
    said = fact.statement
    has = frozenset(terms(f"{said.subject} {said.text}"))
    begin = (said.text.partition(" said: ")[2] or said.text).partition(" ")[0]
    named = frozenset(terms(" ".join((said.subject, begin, *said.entities))))
    if language_of(said.text) != "german":
        named |= {term for word in _capitalized(said.text) for term in terms(word)}
    about = fact.subject_key in meant.people or not named.isdisjoint(terms(meant.text))
    if fact.subject_key in meant.others or not meant.names <= has or (meant.first_person and not about):
        return False
    value = frozenset(terms(said.value))
    if value and said.attribute in meant.stated_attributes and value <= frozenset(terms(meant.text)):
        return True
    content = {term for term in meant.terms - meant.names if not any(alike(term, name) for name in named)}
    needed = content - ignored
    valued = bool(content) and not meant.names <= frozenset(terms(f"{said.subject} {begin}"))
    return bool(needed or valued) and all(any(alike(term, each) for each in has) for term in needed)


def _are_several(facts: Collection[NearFact]) -> bool:
    """Whether facts are about several people, or tell several values of an attribute that may have them."""
    values: dict[str, set[str]] = {}
    for each in facts:
        if each.statement.attribute and not single_valued(each.statement.attribute):
            values.setdefault(each.statement.attribute, set()).add(normalize_name(each.statement.value))
    return len({each.subject_key for each in facts}) > 1 or any(len(each) > 1 for each in values.values())


def _first_person(words: str) -> bool:
    return not _FIRST_PERSON.isdisjoint(word.casefold().partition("'")[0] for word in _WORD.findall(words))


def _names(folded: str, person: KnownPerson) -> bool:
    return any(f" {key} " in folded for key in person.keys)


def _keys(people: Collection[KnownPerson]) -> frozenset[str]:
    return frozenset(key for each in people for key in each.keys)


def _capitalized(words: str) -> list[str]:
    """Capitalized words that are names: not the first one, which any sentence begins with, no month and no weekday."""
    found = _WORD.findall(words)[1:]
    return [
        word.removesuffix("'s").removesuffix("\u2019s")
        for word in found
        if word[:1].isupper() and word.casefold() not in _IDLE and not _DATE.fullmatch(word)
    ]


MAX_WORDS_CHARS = 1_000
SHOWN_CHARS = 500
"""Of each fact are shown to the model."""
CANDIDATES = 20
"""Facts that the words of a request to forget are compared with, and the most that it erases."""
SIMILARITY = 0.6
"""Without a model a fact is forgotten from this similarity to the words on: the larger of the cosine and of the share
of their terms that it has; 1 for a state that is meant ("where I work")."""
ACTOR = "memory"
"""The actor of a deletion in the audit, when the caller names none."""

_SYSTEM = """\
Somebody asks that a memory forgets something. You choose which of its facts are meant. The user message is a JSON
document: "words" is what is to be forgotten, in the words of "owner" ("I" and "my" are the owner), "facts" are the
facts that were found, each with its number and its text.

"facts" of your answer are the numbers of all facts that tell what is to be forgotten: where the words name a state
("where I work"), every fact that tells it, earlier values too; where they name a value or an event, only the facts
that tell that one. Leave out facts about other people, and facts that are only about something similar. When none is
meant, the list is empty: what is chosen is deleted for good.
"""


class ChoiceAnswer(BaseModel):
    """The shape of an answer, before it is checked."""

    facts: list[int]


@dataclass(frozen=True, slots=True)
class Forgetter:
    """Forgets what words name. Thread-safe."""

    engine: Engine
    recall: RecallService
    embedder: Embedder
    erasure: Erasure
    operations: Operations
    calls: CheckedCalls

    def forget(
        self,
        tenant: TenantId,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        about: str | None = None,
        turns: Turns = "alone",
        actor: str = ACTOR,
        wait: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[Forgetting]:
        """Delete the facts that ``words`` name ("where I work", "that I like jazz"); says what was found and goes.

        With a chat model one call chooses among the facts that are found; without, those that say all that the words
        say. Words that fit several things choose none. ``about`` is whom "I" in them means (a speaker's id or name);
        the owner unless given. Words that give an alias ("that gruzilkin is Sergey") mean the notes that gave it; the
        name goes with their turns. ``turns`` says what becomes of the turns that say the facts: "alone" deletes those
        that say nothing else, "all" also those that say other things, "none" leaves them; ``left`` of the result names
        what stays. ``dry_run`` only says what would go. ``actor`` is the name for the audit. Returns when the deletions
        are requested; with ``wait`` when they are done, at most ``timeout_s`` seconds later, with their receipts. A
        model that is unavailable, or names what it was not shown, chooses nothing, and ``degraded`` says so.
        Raises InvalidInput, ForestFrozen, StoreUnavailable; with ``wait`` also OperationFailed and WaitTimeout.
        """
        forgotten = self._forget(tenant, owner, words, dry_run, about, turns, actor)
        if not wait or dry_run:
            return forgotten
        for task in forgotten.operations:
            yield from self.operations.wait_steps(tenant, task, timeout_s, lambda _: None)
        return self.with_receipts(tenant, forgotten)

    def _forget(
        self, tenant: TenantId, owner: str, words: str, dry_run: bool, about: str | None, turns: Turns, actor: str
    ) -> Forgetting:
        owner, actor = checked_name(owner, "owner"), checked_actor(actor)
        if turns not in get_args(Turns):
            raise InvalidInput(f"Set turns to alone, all or none, not {turns!r:.40}.", code="invalid_turns")
        if not isinstance(words, str) or not words.strip() or len(words) > MAX_WORDS_CHARS:
            raise InvalidInput(f"Say what to forget in 1 to {MAX_WORDS_CHARS} characters.", code="invalid_words")
        words = self.calls.redactor.masked(words)[0]
        made = Made.MODEL if self.calls.possible else Made.RULES
        with ProfileRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(owner)
        if forest is None:
            return Forgetting((), (), (), (), made, dry_run, owner_known=False)
        found = self._find(tenant, forest, words, about)
        chosen, degraded = self._chosen(tenant, forest, words, found)
        with ProfileRows.opened(self.engine, tenant) as rows:
            chosen = _with_corrected(rows, forest, chosen)
            ids = {fact.id for fact in chosen}
            saying = rows.saying(ids) if ids else []
        going = [each for each in saying if turns == "all" or (turns == "alone" and not each.mixed)]
        staying = [each for each in saying if each not in going]
        result = Forgetting(
            facts=chosen,
            others=tuple(fact for fact in found.facts if fact.id not in ids),
            turns=_said_in(going),
            left=_said_in(staying),
            made=made,
            dry_run=dry_run,
            degraded=(*found.degraded, *degraded),
        )
        return (
            result
            if dry_run
            else replace(result, operations=self._request_deletions(tenant, owner, ids, saying, going, actor))
        )

    def forget_facts(
        self, tenant: TenantId, owner: str, facts: Collection[FactId], *, actor: str
    ) -> tuple[TaskId, ...]:
        """Ask for facts to be deleted, with those that were corrected to them and the turns that say nothing else.

        Raises NotFound for an owner without a memory, InvalidInput, ForestFrozen, StoreUnavailable.
        """
        actor = checked_actor(actor)
        with ProfileRows.opened(self.engine, tenant) as rows:
            forest = known(rows.find_forest(checked_name(owner, "owner")), owner)
            ids = {*facts, *(old for old, _, _ in rows.corrected_to(forest.id, facts))}
            saying = rows.saying(ids)
        return self._request_deletions(tenant, owner, ids, saying, [each for each in saying if not each.mixed], actor)

    def with_receipts(self, tenant: TenantId, forgotten: Forgetting) -> Forgetting:
        """The same with the receipts of its deletions. Raises StoreUnavailable."""
        return replace(forgotten, receipts=tuple(self.erasure.receipt(tenant, each) for each in forgotten.operations))

    def _find(self, tenant: TenantId, forest: ForestRef, words: str, about: str | None) -> Found:
        """The facts that recall finds, and those of the states that are meant; of an alias those of its notes."""
        with ProfileRows.opened(self.engine, tenant) as rows:
            speakers = rows.speakers(forest.id)
            writer = person_named(forest.owner, forest, speakers, about)
            alias = alias_in(_THAT.sub("", words), People(forest.owner, speakers, forest.display_name))
            person = writer if alias is None else alias.of or writer
            noted = rows.of_alias(forest.id, person, alias.name) if alias and isinstance(person, KnownPerson) else []
            facts = rows.near_facts(forest.id, noted, self.embedder.model) if noted else []
        if facts:
            given = frozenset(each.id for each in facts)
            found = tuple(FoundFact(each.id, each.statement.text, 1.0) for each in facts)
            return Found(found, given, given, False, writer.name)
        recalled = self.recall.recall(tenant, forest.owner, words, CANDIDATES, "flat")
        degraded, vector = recalled.degraded, None
        try:
            vector = self.embedder.embed_query([words]).vectors[0]
        except (ModelUnavailable, ModelRejected):
            degraded = (*degraded, "The embedding model is unavailable: facts were compared by words alone.")
        with ProfileRows.opened(self.engine, tenant) as rows:
            meant = read_words(words, forest, rows.speakers(forest.id), about)
            wanted = meant.attributes and meant.people
            known = rows.states.of_subjects(forest.id, meant.people, meant.attributes, MAX_STATES) if wanted else []
            states: frozenset[UUID] = frozenset(state.id for state in known if _is_meant(state, meant))
            ids: set[UUID] = {fact for piece in recalled.evidence for fact in piece.fact_ids}
            near = rows.near_facts(forest.id, ids | states, self.embedder.model)
        if any(single_valued(state.attribute) for state in known if state.id in states):
            meant = replace(meant, bare=True)
        scored = [FoundFact(each.id, each.statement.text, _similarity(each, meant, states, vector)) for each in near]
        best = sorted(scored, key=lambda fact: -fact.similarity)
        likely = [each for each in near if each.id in states or _says(each, meant, _GENERIC)]
        sure = [each for each in likely if each.id in states or (not meant.bare and _says(each, meant, frozenset()))]
        return Found(
            tuple(best[:CANDIDATES]),
            frozenset(each.id for each in sure),
            frozenset(each.id for each in likely),
            not _ALL.search(words) and _are_several(sure),
            writer.name,
            tuple(dict.fromkeys(degraded)),
        )

    def _chosen(
        self, tenant: TenantId, forest: ForestRef, words: str, found: Found
    ) -> tuple[tuple[FoundFact, ...], tuple[str, ...]]:
        """The facts that are meant, and a sentence when the words or the model's answer leave that open."""
        facts = found.facts
        if not self.calls.possible:
            if found.ambiguous:
                return (), ("The words fit several facts, so nothing is forgotten: name one of others, or say all.",)
            least = SIMILARITY
            return tuple(fact for fact in facts if fact.id in found.sure and fact.similarity >= least), ()
        if not facts:
            return (), ()
        document = {
            "owner": found.writer,
            "words": words,
            "facts": [
                {"number": number, "text": clipped(fact.text, SHOWN_CHARS)} for number, fact in enumerate(facts, 1)
            ],
        }

        def check(answer: ChoiceAnswer) -> tuple[FoundFact, ...]:
            chosen = tuple(dict.fromkeys(numbered("facts", answer.facts, facts, ": use the numbers of the facts")))
            stray = [fact for fact in chosen if fact.id not in found.likely]
            if stray:
                number = facts.index(stray[0]) + 1
                raise ContentFault(f'"facts" names {number}, which does not say what the words say: leave it out')
            return chosen

        chosen, why = self.calls.answer(tenant, forest.id, _SYSTEM, document, ChoiceAnswer, check, "choice")
        return ((), (f"Nothing was chosen, so nothing is forgotten: {why}.",)) if chosen is None else (chosen, ())

    def _request_deletions(
        self,
        tenant: TenantId,
        owner: str,
        facts: Collection[FactId],
        saying: Sequence[Saying],
        going: Sequence[Saying],
        actor: str,
    ) -> tuple[TaskId, ...]:
        """Ask for the deletions: turns, of notes the whole session, then the facts that other turns say too.

        What somebody else has deleted meanwhile is left out.
        """
        tasks: list[TaskId] = []
        # Facts that no other turn says go with their turns.
        staying = {each.fact_id for each in saying if each not in going}
        unsaid = set(facts) - {each.fact_id for each in saying}
        for session in dict.fromkeys(each.session for each in going):
            own = [each for each in going if each.session == session]
            turns = () if own[0].note else tuple(dict.fromkeys(each.turn for each in own))
            try:
                tasks.append(self.erasure.ask(tenant, owner, session=session, turns=turns, actor=actor))
            except NotFound:
                continue
        for fact in sorted(staying | unsaid, key=str):
            try:
                tasks.append(self.erasure.ask(tenant, owner, fact=fact, actor=actor))
            except NotFound:
                continue
        return tuple(tasks)


def _with_corrected(rows: ProfileRows, forest: ForestRef, chosen: tuple[FoundFact, ...]) -> tuple[FoundFact, ...]:
    """The facts, and those that were corrected to them: without its correction a wrong one would hold again."""
    if not chosen:
        return ()
    near = {fact.id: fact.similarity for fact in chosen}
    old = rows.corrected_to(forest.id, near.keys())
    return (*chosen, *(FoundFact(fact, text, near[into]) for fact, into, text in old))


def _said_in(saying: Sequence[Saying]) -> tuple[SaidIn, ...]:
    return tuple(SaidIn(*place) for place in dict.fromkeys((each.session, each.turn) for each in saying))
