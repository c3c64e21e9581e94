"""How long a slow model needs for what waits, by the calls that were recorded and the cells that are stored."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.ids import TenantId
from memforest_core.store import tables as m
from memforest_core.store.rows import seconds_from_now
from memforest_core.work.jobs import WorkError

MODEL_SLOW = "model_slow"
NEEDS_A_PERSON = frozenset({"model_rejected", "model_auth_failed"})
"""Waiting does not help against these: the key or the model's name has to change."""
SLOW_TOKENS_PER_S, LONG_S = 50.0, 60.0
"""A model that answers faster, or needs less time for what waits, is not named."""
LATEST_CALLS, LATEST_S = 8, 3_600.0


def explained(
    connection: sa.Connection, tenant: TenantId, error: WorkError | None, what: str, of: sa.ColumnElement[bool]
) -> WorkError | None:
    """The last ``error`` of cells and the pace of a slow model; ``what`` names the cells, ``of`` is their condition."""
    k, c = m.LlmCall, m.Cell
    answered = (k.tenant_id == tenant, k.step == "extract", k.completion_tokens > 0, k.at > seconds_from_now(-LATEST_S))
    calls = sa.select(k.completion_tokens, k.latency_ms).where(*answered).order_by(k.at.desc()).limit(LATEST_CALLS)
    tokens, milliseconds = (sa.func.sum(column) for column in calls.subquery().c)
    measured = connection.scalar(sa.select(tokens * 1_000 / sa.func.nullif(milliseconds, 0)))
    waiting = (c.tenant_id == tenant, c.state.in_(("ready", "running")), of)
    chars = connection.scalar(sa.select(sa.func.sum(sa.func.length(c.text))).where(*waiting)) or 0
    # An answer has about as many tokens as the talk.
    seconds = chars / CHARS_PER_TOKEN / (rate := float(measured or SLOW_TOKENS_PER_S))
    if rate >= SLOW_TOKENS_PER_S or seconds < LONG_S or (error is not None and error.code in NEEDS_A_PERSON):
        return error
    pace = f"The model answers {max(1, round(rate))} tokens a second; {what} needs about {seconds / 60:.0f} minutes."
    return WorkError(MODEL_SLOW, pace) if error is None else WorkError(error.code, f"{error.message} {pace}")
