"""Delivers what is due: claimed, posted with nothing locked, and stored as delivered, to be tried again, or dead."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.observe.webhooks.posting import Poster
from memforest_core.observe.webhooks.records import Message, Outcome
from memforest_core.observe.webhooks.rows import WebhookRows
from memforest_core.observe.webhooks.signing import body_of, headers_of
from memforest_core.settings import WebhookSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.rows.jobs import VERSION
from memforest_core.work.states import WorkState
from memforest_core.work.telemetry import SILENT, Telemetry

STEP = "webhook"
RETRY_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds between two tries: the schedule that Standard Webhooks gives, over three days."""
JITTER = 0.2
"""Share of a wait that is added at random, so that what failed together is not tried together."""
AT_ONCE = 16
"""Deliveries of a tenant that are under way: one worker posts them side by side."""
LEASE_S = 180.0
"""Longer than a try may take, with the time that a resolver takes to give up."""
LOOKED_AT = 200
"""Held deliveries that one unit looks at."""
LOOK_AGAIN_S = 1.0
SLOWER = 20.0
"""What is held is looked at again after a second and a twentieth of its age."""
DROPPED = 1_000
"""Deliveries that are deleted in one transaction."""
DAY_S = 86_400.0


def next_wait(attempts: int, asked_s: float, jitter: float) -> float | None:
    """Seconds until the next try after so many, with jitter in [0, 1); None after the last one.

    ``asked_s`` is what the receiver asked for.
    """
    if attempts > len(RETRY_S):
        return None
    return max(RETRY_S[attempts - 1], asked_s) * (1.0 + JITTER * jitter)


class Delivering:
    """The workers' side of webhooks. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        settings: WebhookSettings,
        poster: Poster,
        rng: random.Random,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._poster = poster
        self._rng = rng
        self._telemetry = telemetry

    def run_one(self, tenant: TenantId, worker: WorkerId) -> bool:
        """Look at what is held, and deliver what is due, at most ``AT_ONCE``; whether anything changed.

        Raises StoreUnavailable.
        """
        with WebhookRows.opened(self._engine, tenant) as rows:
            released = rows.look_at_held(LOOKED_AT, LOOK_AGAIN_S, SLOWER)
        with WebhookRows.opened(self._engine, tenant) as rows:
            token, messages = rows.claim(worker, AT_ONCE, LEASE_S)
        if messages:
            with ThreadPoolExecutor(len(messages), thread_name_prefix="memforest-webhook") as threads:
                posts = {threads.submit(self._post, tenant, message): message for message in messages}
                for done in as_completed(posts):
                    self._settle(tenant, token, posts[done], done.result())
        return bool(released or messages)

    def drop_past(self, tenant: TenantId) -> int:
        """Delete the tenant's deliveries that were over so long ago that they are not kept; how many.

        Raises StoreUnavailable.
        """
        total = 0
        while True:
            with WebhookRows.opened(self._engine, tenant) as rows:
                dropped = rows.drop_past(DROPPED)
            total += dropped
            if dropped < DROPPED:
                return total

    def _post(self, tenant: TenantId, message: Message) -> Outcome:
        if not message.enabled:
            return Outcome(code="endpoint_disabled", text="Its endpoint is disabled.", final=True)
        body = body_of(tenant, message)
        headers = {"content-type": "application/json", "user-agent": f"memforest/{VERSION}"}
        return self._poster.post(message.url, headers | headers_of(message, body, int(time.time())), body)

    @repeated
    def _settle(self, tenant: TenantId, token: LeaseToken, message: Message, outcome: Outcome) -> None:
        kept_s = self._settings.retain_days * DAY_S
        wait_s = None if outcome.final else next_wait(message.attempts, outcome.retry_after_s, self._rng.random())
        with WebhookRows.opened(self._engine, tenant) as rows:
            if outcome.gone:
                rows.set_enabled(message.endpoint_id, False)
            if outcome.code is None:
                rows.settle(token, message.id, WorkState.DONE, outcome, kept_s)
            elif wait_s is None:
                rows.settle(token, message.id, WorkState.DEAD, outcome, kept_s)
            else:
                rows.settle(token, message.id, WorkState.READY, outcome, wait_s)
        if outcome.code is not None:
            tell = self._telemetry.buried if wait_s is None else self._telemetry.retried
            tell(STEP, tenant, outcome.code)
