"""Worker of webhooks: deliveries are claimed, posted without a lock, and stored as done, to be retried, or dead."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from memforest_core.domain.ids import LeaseToken, TenantId, WorkerId
from memforest_core.observe.webhooks.posting import Poster
from memforest_core.observe.webhooks.records import DISABLED, GONE, Message, Outcome
from memforest_core.observe.webhooks.rows import WebhookRows
from memforest_core.observe.webhooks.signing import body_of, headers_of
from memforest_core.settings import WebhookSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import WorkState
from memforest_core.work.rows.jobs import VERSION
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
CHECKED = 200
"""Held deliveries that one unit checks."""
RECHECK_S = 1.0
SLOWER = 20.0
"""What is held is re-checked after a second and a twentieth of its age."""
DROPPED = 1_000
"""Deliveries that are deleted in one transaction."""
DAY_S = 86_400.0


def next_wait(attempts: int, requested_s: float, jitter: float) -> float | None:
    """Seconds until the next try after so many, with jitter in [0, 1); None after the last one.

    ``requested_s`` is the receiver's Retry-After.
    """
    if attempts > len(RETRY_S):
        return None
    return max(RETRY_S[attempts - 1], requested_s) * (1.0 + JITTER * jitter)


class PostingWorker:
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
        """Check what is held, and deliver what is due, at most ``AT_ONCE``; whether anything changed.

        Raises StoreUnavailable.
        """
        with WebhookRows.opened(self._engine, tenant) as rows:
            released = rows.check_held(CHECKED, RECHECK_S, SLOWER)
        with WebhookRows.opened(self._engine, tenant) as rows:
            token, messages = rows.claim(worker, AT_ONCE, LEASE_S)
        if messages:
            with ThreadPoolExecutor(len(messages), thread_name_prefix="memforest-webhook") as threads:
                posts = {threads.submit(self._post, tenant, message): message for message in messages}
                for done in as_completed(posts):
                    self._settle(tenant, token, posts[done], done.result())
        return bool(released or messages)

    def drop_past(self, tenant: TenantId) -> int:
        """Delete the tenant's deliveries that were over longer ago than ``webhooks.retain_days``; how many.

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
            return Outcome(code=DISABLED, text="Its endpoint is disabled.")
        body = body_of(tenant, message)
        headers = {"content-type": "application/json", "user-agent": f"memforest/{VERSION}"}
        return self._poster.post(message.url, headers | headers_of(message, body, int(time.time())), body)

    @repeated
    def _settle(self, tenant: TenantId, token: LeaseToken, message: Message, outcome: Outcome) -> None:
        stored_s = self._settings.retain_days * DAY_S
        wait_s = None
        if outcome.code not in (None, DISABLED, GONE):
            wait_s = next_wait(message.attempts, outcome.retry_after_s, self._rng.random())
        state = WorkState.DONE if outcome.code is None else WorkState.DEAD if wait_s is None else WorkState.READY
        with WebhookRows.opened(self._engine, tenant) as rows:
            if outcome.code == GONE:
                rows.set_enabled(message.endpoint_id, False)
            rows.settle(token, message.id, state, outcome, stored_s if wait_s is None else wait_s)
        if outcome.code is not None:
            count = self._telemetry.buried if wait_s is None else self._telemetry.retried
            count(STEP, tenant, outcome.code)
