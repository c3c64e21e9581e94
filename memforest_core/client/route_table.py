"""All routes, from each folder's http.py."""

from __future__ import annotations

from memforest_core.assistant.http import CALENDAR, CONTEXT, PROFILE, TOPICS, WINDOW
from memforest_core.domain.routes import Route
from memforest_core.ingest.accept.http import ROUTES as ACCEPT
from memforest_core.lifecycle.http import ROUTES as LIFECYCLE
from memforest_core.observe.http import ROUTES as OBSERVE
from memforest_core.observe.http import WEBHOOKS
from memforest_core.recall.http import ROUTES as RECALL
from memforest_core.work.http import ROUTES as WORK

PREFIX = "/v1"
BUNDLE = "/bundle"
"""Where forests come and go as files."""
COUNTS = "Memforest-Numbers"
"""The header in which an export's counts come, as JSON."""
MAX_WAIT_S = 300.0
"""A request waits at most so long; a caller who waits longer sends another."""

FOLDERS = {
    "sessions": ACCEPT,
    "recall": (*RECALL, *CONTEXT),
    "reading": OBSERVE,
    "profile": PROFILE,
    "window": WINDOW,
    "calendar": CALENDAR,
    "topics": TOPICS,
    "operations": (*LIFECYCLE, *WORK),
    "webhooks": WEBHOOKS,
}
"""Routes by the heading under which the reference lists them."""

ROUTES: dict[str, Route] = {route.name: route for routes in FOLDERS.values() for route in routes}
"""Each route by its name."""
