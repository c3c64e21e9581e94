"""Where the evidence is lost on its way from the conversation into the delivered text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from benchmarks.eval.measuring import Item
from benchmarks.eval.records import Record
from memforest_core.domain.ids import TenantId
from memforest_core.store.engine import tenant_transaction

DEEP = 1_000
"""Items to request, as many as recall gives: to separate what was never a candidate from what is ranked too low."""

STORED = sa.text(
    """
    SELECT t.external_id
      FROM memforest.turn t
      JOIN memforest.session s ON s.tenant_id = t.tenant_id AND s.session_id = t.session_id
      JOIN memforest.forest r ON r.tenant_id = s.tenant_id AND r.forest_id = s.forest_id
     WHERE t.tenant_id = :t AND r.owner = :owner
       AND EXISTS (SELECT 1 FROM memforest.cell c WHERE c.tenant_id = t.tenant_id AND c.session_id = t.session_id
                      AND t.ordinal BETWEEN c.first_turn AND c.last_turn)
    """
)


class Loss(StrEnum):
    """What became of a gold turn; each that is not found within 2,000 tokens has exactly one of the four."""

    NOT_STORED = "not_stored"
    """No cell contains it."""
    NOT_RECALLED = "not_recalled"
    """Not among 1,000 items: never a candidate."""
    BELOW_200 = "below_200"
    """A candidate, below the first 200 items."""
    CUT_2000 = "cut_2000"
    """Among the first 200 items, but its words are not in the first 2,000 tokens."""


GOLD = "gold"
CUT_500 = "cut_500"
"""Further counts of a record: all gold turns, and those that 2,000 tokens hold and 500 do not."""


def stored(engine: sa.Engine, tenant: TenantId, owner: str) -> frozenset[str]:
    """Ids of an owner's turns that are in a cell."""
    with tenant_transaction(engine, tenant) as connection:
        return frozenset(connection.execute(STORED, {"t": tenant, "owner": owner}).scalars())


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question: its gold turns and whether each is found within 500 and within 2,000 tokens."""

    gold: Sequence[str]
    found_500: Sequence[bool]
    found_2000: Sequence[bool]
    items: Sequence[Item]
    """The first 200 items."""


def lost(outcome: Outcome, held: Collection[str], deeper: Callable[[], Sequence[Item]]) -> dict[str, int]:
    """How many gold turns each stage lost; ``deeper`` gives 1,000 items, and is called only when they decide."""
    counts: Counter[str] = Counter({GOLD: len(outcome.gold)})
    quoted = _turns(outcome.items)
    deep: frozenset[str] | None = None
    for turn, near, far in zip(outcome.gold, outcome.found_500, outcome.found_2000, strict=True):
        if far:
            counts[CUT_500] += not near
        elif turn not in held:
            counts[Loss.NOT_STORED] += 1
        elif turn in quoted:
            counts[Loss.CUT_2000] += 1
        else:
            deep = _turns(deeper()) if deep is None else deep
            counts[Loss.BELOW_200 if turn in deep else Loss.NOT_RECALLED] += 1
    return {str(stage): count for stage, count in counts.items() if count}


def _turns(items: Sequence[Item]) -> frozenset[str]:
    return frozenset(turn for item in items for turn in item.turn_ids)


def loss_table(records: Sequence[Record]) -> Mapping[str, object]:
    """Percent of all gold turns that each stage lost, and that are found within each budget in the end."""
    total: Counter[str] = Counter()
    for record in records:
        total.update(record.losses)
    gold = total[GOLD]
    if not gold:
        return {}
    stages = {str(stage): round(100 * total[stage] / gold, 1) for stage in Loss}
    missing = sum(total[stage] for stage in Loss)
    return {
        "gold_turns": gold,
        **stages,
        CUT_500: round(100 * total[CUT_500] / gold, 1),
        "found_500": round(100 * (gold - missing - total[CUT_500]) / gold, 1),
        "found_2000": round(100 * (gold - missing) / gold, 1),
    }
