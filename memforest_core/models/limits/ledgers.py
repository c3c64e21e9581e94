"""Who keeps the states of models: Redis for all workers, or this process's memory while Redis is away."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

from redis import Redis

from memforest_core.domain.limits import (
    Admission,
    CallEnd,
    Look,
    ModelLimits,
    ModelState,
    Reason,
    Verdict,
    admit,
    look,
    settle,
)
from memforest_core.models.limits.scripts import ADMIT, LOOK, SETTLE

PREFIX = "memforest:limits:"
"""Of every key in Redis."""


class Ledger(Protocol):
    """The decisions of ``domain.limits`` on kept states; each is atomic."""

    def admit(self, model: str, permit: str, tokens: int, hold_s: float) -> tuple[Admission, float]:
        """Whether a call may start, and the time on the ledger's clock."""
        ...

    def settle(self, model: str, end: CallEnd) -> float:
        """Note the end of a call; the time on the ledger's clock."""
        ...

    def look(self, model: str) -> Look:
        """How long the model is paused."""
        ...


class MemoryLedger:
    """One process's ledger."""

    def __init__(self, limits: ModelLimits, clock: Callable[[], float]) -> None:
        """``clock``: seconds, never before 0, monotonic."""
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._states: dict[str, ModelState] = {}
        self._permits: dict[str, dict[str, float]] = {}

    def admit(self, model: str, permit: str, tokens: int, hold_s: float) -> tuple[Admission, float]:
        with self._lock:
            now = self._clock()
            permits = self._held(model, now)
            self._states[model], admission = admit(
                self._states.get(model, ModelState()),
                self._limits,
                permit=permit,
                tokens=tokens,
                hold_s=hold_s,
                under_way=len(permits),
                now=now,
            )
            if admission.verdict is Verdict.GRANTED:
                permits[permit] = now + hold_s
            return admission, now

    def note(self, model: str, permit: str, hold_s: float) -> float:
        """Count a call that another ledger admitted as under way; the time on this ledger's clock."""
        with self._lock:
            now = self._clock()
            self._held(model, now)[permit] = now + hold_s
            return now

    def settle(self, model: str, end: CallEnd) -> float:
        with self._lock:
            now = self._clock()
            permits = self._held(model, now)
            state = self._states.get(model, ModelState())
            self._states[model] = settle(state, self._limits, end, under_way=len(permits), now=now)
            permits.pop(end.permit, None)
            return now

    def look(self, model: str) -> Look:
        with self._lock:
            self._states[model], seen = look(self._states.get(model, ModelState()), self._clock())
            return seen

    def _held(self, model: str, now: float) -> dict[str, float]:
        """Permits under way by the time they end; expired ones are gone."""
        permits = self._permits.setdefault(model, {})
        for permit in [permit for permit, ends in permits.items() if ends <= now]:
            del permits[permit]
        return permits


class RedisLedger:
    """The ledger of all workers. Every method raises redis.RedisError when Redis can't be used."""

    def __init__(self, client: Redis, limits: ModelLimits, clock: Callable[[], float] | None = None) -> None:
        """``clock`` stands for the server's in tests."""
        self._limits = [
            _text(limits.requests_per_minute),
            _text(limits.tokens_per_minute),
            _text(limits.concurrent_calls),
            _text(limits.circuit_failures),
            _text(limits.circuit_open_s),
            _text(limits.circuit_longest_s),
        ]
        self._clock = clock
        self._admit = client.register_script(ADMIT)
        self._settle = client.register_script(SETTLE)
        self._look = client.register_script(LOOK)

    def admit(self, model: str, permit: str, tokens: int, hold_s: float) -> tuple[Admission, float]:
        verdict, wait, reason, now = self._run(self._admit, model, permit, _text(tokens), _text(hold_s))
        return Admission(Verdict(verdict), float(wait), Reason(reason)), float(now)

    def settle(self, model: str, end: CallEnd) -> float:
        now = self._run(
            self._settle,
            model,
            end.permit,
            "" if math.isinf(end.started) else _text(end.started),
            end.outcome.value,
            _text(end.reserved),
            _text(end.used),
            _text(end.retry_after),
        )
        return float(now)

    def look(self, model: str) -> Look:
        paused_s, to_try = self._run(self._look, model)
        return Look(float(paused_s), to_try == 1)

    def _run(self, script: Any, model: str, *arguments: str) -> Any:
        # The braces keep a model's two keys on one node of a cluster.
        keys = [f"{PREFIX}{{{model}}}", f"{PREFIX}{{{model}}}:permits"]
        now = "" if self._clock is None else _text(self._clock())
        return script(keys=keys, args=[now, *self._limits, *arguments])


def _text(number: float | None) -> str:
    """A number as Redis gets it, exact; empty for None."""
    return "" if number is None else repr(number)
