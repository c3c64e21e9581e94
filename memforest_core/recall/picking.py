"""Which mode ``auto`` means: the most thorough that is configured and fits the caller's time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from memforest_core.domain.evidence import Mode
from memforest_core.domain.forks import renewed_in_child

FIRST_GUESS_MS: Mapping[Mode, float] = {
    Mode.FLAT: 50.0,
    Mode.EMBEDDING: 150.0,
    Mode.LLM: 6_000.0,
    Mode.PLANNER: 8_000.0,
}
"""The assumed time of a recall in each mode until this process has measured it, in milliseconds.

The first two are generous for 100,000 facts in one forest; the others are four levels of calls of 1.5 s, and one more
call and its waiting for the planner.
"""
WEIGHT = 0.2
"""Of the newest measurement in the mean: it follows a change within about ten recalls."""
DRIFT = 0.01
"""By which each recall moves the means of the other modes back to their first guess, so that a mode that was slow once
is tried again after about a hundred recalls."""
ORDER = (Mode.PLANNER, Mode.LLM, Mode.EMBEDDING, Mode.FLAT)
"""From the most thorough to the cheapest."""


@renewed_in_child
@dataclass(slots=True, weakref_slot=True)
class Paces:
    """The time of a recall in each mode in this process: an exponentially weighted mean. Thread-safe."""

    _means: dict[Mode, float] = field(default_factory=lambda: dict(FIRST_GUESS_MS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, mode: Mode, ms: float) -> None:
        """Note how long a recall took."""
        with self._lock:
            for known, mean in self._means.items():
                towards, share = (ms, WEIGHT) if known is mode else (FIRST_GUESS_MS[known], DRIFT)
                self._means[known] = mean + share * (towards - mean)

    def recent_ms(self) -> dict[Mode, float]:
        """The mean of each mode now, in milliseconds."""
        with self._lock:
            return dict(self._means)


def pick(
    chat_configured: bool, embedder_away: bool, budget_ms: float | None, recent_ms: Mapping[Mode, float]
) -> tuple[Mode, str]:
    """The first of planner, llm, embedding and flat that can be used and has taken no longer than the budget lately.

    With one sentence that says why.
    The first two need a chat model, embedding an embedder. Without a budget time does not count. When nothing fits, the
    cheapest is used and the sentence says that it may take longer. A mode that ``recent_ms`` lacks costs its first
    guess.
    """
    costs = {**FIRST_GUESS_MS, **recent_ms}
    usable = [mode for mode in ORDER if _usable(mode, chat_configured, embedder_away)]
    lacks = _lacks(chat_configured, embedder_away)
    best = usable[0]
    if budget_ms is None:
        return best, f"Picked {best} because it is the most thorough that can be used{lacks}; no budget is set."
    for mode in usable:
        if costs[mode] <= budget_ms:
            slower = "" if mode is best else f", and {best} takes about {costs[best]:.0f} ms"
            return (
                mode,
                f"Picked {mode} because it takes about {costs[mode]:.0f} ms of the {budget_ms:.0f} ms allowed"
                f"{slower}{lacks}.",
            )
    cheapest = usable[-1]
    return (
        cheapest,
        f"Picked {cheapest} because it is the cheapest, though it takes about {costs[cheapest]:.0f} ms and"
        f" {budget_ms:.0f} ms are allowed{lacks}.",
    )


def _usable(mode: Mode, chat_configured: bool, embedder_away: bool) -> bool:
    if mode in (Mode.PLANNER, Mode.LLM):
        return chat_configured
    return mode is not Mode.EMBEDDING or not embedder_away


def _lacks(chat_configured: bool, embedder_away: bool) -> str:
    lacking = [
        *([] if chat_configured else ["no chat model is configured"]),
        *(["the embedding model is away"] if embedder_away else []),
    ]
    return f" ({' and '.join(lacking)})" if lacking else ""
