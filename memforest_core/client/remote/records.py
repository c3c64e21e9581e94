"""What HTTP answers with for a session's handle, and for a key."""

from __future__ import annotations

from dataclasses import dataclass

from memforest_core.assistant.topics.records import MatchedTopic
from memforest_core.ingest.accept.records import Accepted


@dataclass(frozen=True, slots=True)
class Stored:
    """An accepted session: the same for the same session, however often it is sent."""

    owner: str
    session_id: str
    accepted: Accepted
    topic: MatchedTopic | None = None
    """The topic of an appended turn, with the setting topics.match_on_append."""
    degraded: str = ""
    """A sentence when something was unavailable that finds the topic."""


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """What a key is: whose, and what it may do."""

    tenant: str
    name: str
    scope: str
    owners: str | None
    """The pattern of the owners that it reaches; None: all."""
