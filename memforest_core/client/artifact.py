"""The names of the paper artifact's quick start, as aliases over the same core: change the imports, keep the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from memforest_core.client.api import MemForest as _MemForest
from memforest_core.client.handles import SessionHandle
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.evidence import Evidence, RecallResult
from memforest_core.domain.turns import checked_messages, checked_name
from memforest_core.errors import InvalidInput
from memforest_core.settings import Settings
from memforest_core.settings import load_default_config as _load

__all__ = ["MemForest", "QueryResult", "load_default_config"]


def load_default_config(name: str = "default", **overrides: object) -> Settings:
    """As in ``memforest_core``. The artifact's ``default_4b`` differs from its ``default`` by the model alone, which
    is the setting MEMFOREST_LLM__MODEL here."""
    return _load("default" if name == "default_4b" else name, **overrides)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A recall result under the artifact's name: ``top_facts`` are the evidence, best first."""

    recalled: RecallResult

    @property
    def top_facts(self) -> tuple[Evidence, ...]:
        """The evidence."""
        return self.recalled.evidence


class MemForest:
    """The artifact's object: an embedded node in ``snapshot_dir``; ``user_id`` is the owner."""

    def __init__(self, snapshot_dir: str | Path, config: Settings | None = None) -> None:
        self._memory = _MemForest.embedded(snapshot_dir, config)

    def register_user(self, user_id: str) -> None:
        """Nothing to do: an owner exists from the first session on. Raises InvalidInput for a bad id."""
        checked_name(user_id, "user_id")

    def ingest_session(self, user_id: str, session_id: str, turns: Sequence[TurnInput]) -> SessionHandle:
        """Store a session and wait for its facts."""
        return self._memory.ingest(user_id, session_id, turns, wait="facts")

    def ingest_parallel(self, requests: Sequence[Mapping[str, object]]) -> list[SessionHandle]:
        """Store many {user_id, session_id, turns} once the form of all is checked, and wait for their facts."""
        return self._memory.ingest_many([_session(request) for request in requests], wait="facts")

    def query(self, user_id: str, question: str, k: int = 10, mode: str | None = None) -> QueryResult:
        """Recall evidence for a question."""
        return QueryResult(self._memory.recall(user_id, question, k, mode))

    def query_parallel(self, requests: Sequence[Mapping[str, object]]) -> list[QueryResult]:
        """Recall for many {user_id, question}, side by side."""
        questions = [(str(_field(request, "user_id")), str(_field(request, "question"))) for request in requests]
        return [QueryResult(found) for found in self._memory.recall_many(questions, 10)]

    def save(self, user_id: str) -> None:
        """Wait until everything of the user is durable and refreshed; nothing is ever in memory only."""
        self._memory.flush(user_id)

    def close(self) -> None:
        """Stop the node."""
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _session(request: Mapping[str, object]) -> tuple[str, str, Sequence[TurnInput]]:
    owner, session = (checked_name(_field(request, name), name) for name in ("user_id", "session_id"))
    turns = cast(Sequence[TurnInput], _field(request, "turns"))
    checked_messages(turns)
    return owner, session, turns


def _field(request: Mapping[str, object], name: str) -> object:
    if name not in request:
        raise InvalidInput(f"Give {name} in each request.", code="missing_field")
    return request[name]
