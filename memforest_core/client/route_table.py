"""All routes, from each folder's http.py."""

from __future__ import annotations

from memforest_core.assistant.calendar.http import ROUTES as CALENDAR
from memforest_core.assistant.context.http import ROUTES as CONTEXT
from memforest_core.assistant.conversation_window.http import ROUTES as WINDOW
from memforest_core.assistant.profile.http import ROUTES as PROFILE
from memforest_core.assistant.topics.http import ROUTES as TOPICS
from memforest_core.domain.routes import Route
from memforest_core.ingest.accept.http import ROUTES as ACCEPT
from memforest_core.lifecycle.correct.http import ROUTES as CORRECT
from memforest_core.lifecycle.erase.http import ROUTES as ERASE
from memforest_core.lifecycle.merge.http import ROUTES as MERGE
from memforest_core.lifecycle.rebuild.http import ROUTES as REBUILD
from memforest_core.lifecycle.retain.http import ROUTES as RETAIN
from memforest_core.observe.http import ROUTES as OBSERVE
from memforest_core.observe.webhooks.http import ROUTES as WEBHOOKS
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
    "operations": (*ERASE, *CORRECT, *MERGE, *REBUILD, *RETAIN, *WORK),
    "webhooks": WEBHOOKS,
}
"""Routes by the heading under which the reference lists them."""

ROUTES: dict[str, Route] = {route.name: route for routes in FOLDERS.values() for route in routes}
"""Each route by its name."""
