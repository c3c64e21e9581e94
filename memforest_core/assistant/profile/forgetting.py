"""Forgetting by words: facts are found and chosen, then they are deleted by the usual operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from pydantic import BaseModel

from memforest_core.assistant.checked_calls import CheckedCalls
from memforest_core.assistant.profile.finding import Finder, Found
from memforest_core.assistant.profile.records import Forgetting, FoundFact, Made, SaidIn, Turns
from memforest_core.assistant.profile.rows import ProfileRows, Saying
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.text import clipped
from memforest_core.domain.turns import checked_actor, checked_name
from memforest_core.errors import ContentFault, InvalidInput, NotFound
from memforest_core.lifecycle.erase.service import Erasure
from memforest_core.settings import ProfileSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import ForestRef, known
from memforest_core.work.operations import Operations
from memforest_core.work.records import TaskId
from memforest_core.work.waiting import DEFAULT_TIMEOUT_S, Steps

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
    finder: Finder
    erasure: Erasure
    operations: Operations
    calls: CheckedCalls
    settings: ProfileSettings

    def forget(
        self,
        tenant: TenantId,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        turns: Turns = "alone",
        actor: str = ACTOR,
        wait: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[Forgetting]:
        """Delete the facts that ``words`` name ("where I work", "that I like jazz"); says what was found and goes.

        With a chat model one call chooses among the facts that are found; without, those that say all that the words
        say. Words that fit several things choose none. ``turns`` says what becomes of the turns that say the facts:
        "alone" deletes those that say nothing else, "all" also those that say other things, "none" leaves them;
        ``left`` of the result names what stays. ``dry_run`` only says what would go. ``actor`` is the name
        for the audit. Returns when the deletions are requested; with ``wait`` when they are done, at most
        ``timeout_s`` seconds later, with their receipts. A model that is unavailable, or names what it was not shown,
        chooses nothing, and ``degraded`` says so.
        Raises InvalidInput, ForestFrozen, StoreUnavailable; with ``wait`` also OperationFailed and WaitTimeout.
        """
        forgotten = self._forget(tenant, owner, words, dry_run, turns, actor)
        if not wait or dry_run:
            return forgotten
        for task in forgotten.operations:
            yield from self.operations.wait_steps(tenant, task, timeout_s, lambda _: None)
        return self.with_receipts(tenant, forgotten)

    def _forget(self, tenant: TenantId, owner: str, words: str, dry_run: bool, turns: Turns, actor: str) -> Forgetting:
        owner, actor = checked_name(owner, "owner"), checked_actor(actor)
        if turns not in get_args(Turns):
            raise InvalidInput(f"Set turns to alone, all or none, not {turns!r:.40}.", code="invalid_turns")
        if not isinstance(words, str) or not words.strip() or len(words) > MAX_WORDS_CHARS:
            raise InvalidInput(f"Say what to forget in 1 to {MAX_WORDS_CHARS} characters.", code="invalid_words")
        made = Made.MODEL if self.calls.possible else Made.RULES
        with ProfileRows.opened(self.engine, tenant) as rows:
            forest = rows.forest(owner)
        if forest is None:
            return Forgetting((), (), (), (), made, dry_run, owner_known=False)
        found = self.finder.find(tenant, forest, words, CANDIDATES)
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
            forest = known(rows.forest(checked_name(owner, "owner")), owner)
            ids = {*facts, *(old for old, _, _ in rows.corrected_to(forest.id, facts))}
            saying = rows.saying(ids)
        return self._request_deletions(tenant, owner, ids, saying, [each for each in saying if not each.mixed], actor)

    def with_receipts(self, tenant: TenantId, forgotten: Forgetting) -> Forgetting:
        """The same with the receipts of its deletions. Raises StoreUnavailable."""
        return replace(forgotten, receipts=tuple(self.erasure.receipt(tenant, each) for each in forgotten.operations))

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
            "owner": forest.display_name or forest.owner,
            "words": words,
            "facts": [
                {"number": number, "text": clipped(fact.text, SHOWN_CHARS)} for number, fact in enumerate(facts, 1)
            ],
        }

        def check(answer: ChoiceAnswer) -> tuple[FoundFact, ...]:
            unknown = [number for number in answer.facts if not 1 <= number <= len(facts)]
            if unknown:
                raise ContentFault(f'"facts" names {unknown[0]}, which was not shown: use the numbers of the facts')
            chosen = tuple(facts[number - 1] for number in dict.fromkeys(answer.facts))
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
        staying = {each.fact_id for each in saying} - _said_only_in(saying, going)
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


def _said_only_in(saying: Sequence[Saying], going: Sequence[Saying]) -> set[FactId]:
    """The facts that no other turn says: they go with these."""
    left = {each.fact_id for each in saying if each not in going}
    return {each.fact_id for each in going} - left


def _said_in(saying: Sequence[Saying]) -> tuple[SaidIn, ...]:
    return tuple(SaidIn(*place) for place in dict.fromkeys((each.session, each.turn) for each in saying))
