"""Endpoints of webhooks and their deliveries: make, list, disable, replay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import Page, checked_id, checked_limit, from_cursor, page_of
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.observe.webhooks.messages import checked_url, new_secret
from memforest_core.observe.webhooks.records import Delivery, Endpoint, Event, NewEndpoint
from memforest_core.observe.webhooks.rows import WebhookRows
from memforest_core.settings import WebhookSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import WorkState

MAX_ENDPOINTS = 100
"""Of a tenant: each event is stored once for each that wants it."""
MAX_DESCRIPTION = 512
OVERLAP_S = 86_400.0
"""How long a former secret signs in addition to the new one."""


class Webhooks:
    """The webhooks of one tenant. Each call is one transaction."""

    def __init__(self, engine: Engine, settings: WebhookSettings, tenant: TenantId) -> None:
        self._engine = engine
        self._settings = settings
        self._tenant = tenant

    @repeated
    def create(self, url: str, events: Sequence[str] | None = None, *, description: str = "") -> NewEndpoint:
        """Have ``events`` (all unless given) posted to ``url`` from now on; the secret is shown this once.

        Raises InvalidInput.
        """
        checked = checked_url(url, allow_private=self._settings.allow_private)
        wanted = _events(events)
        if len(description) > MAX_DESCRIPTION or "\0" in description:
            raise InvalidInput(f"Give description at most {MAX_DESCRIPTION} characters.", code="invalid_description")
        secret = new_secret()
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            if len(rows.endpoints()) >= MAX_ENDPOINTS:
                raise InvalidInput(
                    f"Delete an endpoint first: {MAX_ENDPOINTS} are the most.", code="too_many_endpoints"
                )
            return NewEndpoint(rows.add(checked, wanted, description, secret), secret)

    @repeated
    def list(self) -> Sequence[Endpoint]:
        """All endpoints, the newest first."""
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            return rows.endpoints()

    @repeated
    def delete(self, endpoint: UUID | str) -> None:
        """Delete an endpoint with its deliveries. Raises InvalidInput, NotFound."""
        wanted = checked_id(str(endpoint), "endpoint")
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            if not rows.drop(wanted):
                raise _no_endpoint(wanted)

    @repeated
    def enable(self, endpoint: UUID | str, enabled: bool = True) -> Endpoint:
        """Enable an endpoint, or with ``enabled`` False disable it: nothing that happens meanwhile is posted to it.

        Raises InvalidInput, NotFound.
        """
        wanted = checked_id(str(endpoint), "endpoint")
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            found = rows.set_enabled(wanted, enabled)
        if found is None:
            raise _no_endpoint(wanted)
        return found

    @repeated
    def rotate(self, endpoint: UUID | str) -> NewEndpoint:
        """Give an endpoint another secret; the former one signs too for a day. Raises InvalidInput, NotFound."""
        wanted, secret = checked_id(str(endpoint), "endpoint"), new_secret()
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            found = rows.rotate(wanted, secret, OVERLAP_S)
        if found is None:
            raise _no_endpoint(wanted)
        return NewEndpoint(found, secret)

    @repeated
    def deliveries(
        self,
        endpoint: UUID | str | None = None,
        *,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """Deliveries of an ``endpoint``, or of all, the newest first; only those in a ``state`` (such as "dead") where
        one is given. At most ``limit``; ``cursor`` is that of the page before. Raises InvalidInput."""
        wanted = None if endpoint is None else checked_id(str(endpoint), "endpoint")
        most, which, after = checked_limit(limit), _state(state), from_cursor(cursor, datetime, UUID)
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            found = rows.deliveries(wanted, which, after, most + 1)
        return page_of(found, most, lambda each: each, lambda each: [each.created_at, each.id])

    @repeated
    def replay(self, delivery: UUID | str) -> Delivery:
        """Deliver again what was delivered or given up, with all its tries; what is under way stays as it is.

        Raises InvalidInput, NotFound.
        """
        wanted = checked_id(str(delivery), "delivery")
        with WebhookRows.opened(self._engine, self._tenant) as rows:
            rows.replay(wanted)
            found = rows.delivery(wanted)
        if found is None:
            raise NotFound(f"There is no delivery {wanted}: memforest webhooks deliveries shows them.")
        return found


def _events(events: Sequence[str] | None) -> tuple[Event, ...]:
    if events is None:
        return tuple(Event)
    if isinstance(events, str) or not events or not set(events) <= set(Event):
        raise InvalidInput(f"Give events as a list of {', '.join(Event)}.", code="invalid_events")
    return tuple(event for event in Event if event in events)


def _state(state: str | None) -> WorkState | None:
    if state is None:
        return None
    if state not in list(WorkState):
        raise InvalidInput(f"Set state to one of {', '.join(WorkState)}.", code="invalid_state")
    return WorkState(state)


def _no_endpoint(wanted: UUID) -> NotFound:
    return NotFound(f"There is no endpoint {wanted}: memforest webhooks list shows them.")
