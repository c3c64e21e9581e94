"""Dead letters: work that was given up is shown, tried again, or discarded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import MOST_LISTED, checked_limit
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.store.repeating import repeated
from memforest_core.work.messages import Queue, WakeUps
from memforest_core.work.records import Acted, DeadDetail, DeadKind, DeadLetter, DeadRef
from memforest_core.work.rows.dead_rows import DeadRows

LIST_LIMIT = 1_000
SHORTEST_PREFIX = 8
"""Hex digits that an id may be shortened to."""
MAX_NAMED = 8
"""Ids that an ambiguous beginning lists in its error."""

_ID = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},32}}")


class DeadLetters:
    """The dead letters of one tenant. Each call is one transaction."""

    def __init__(
        self,
        open_rows: Callable[[TenantId], AbstractContextManager[DeadRows]],
        wakeups: WakeUps,
        tenant: TenantId,
        max_wakeups: int,
    ) -> None:
        self._open_rows = open_rows
        self._wakeups = wakeups
        self._tenant = tenant
        self._max_wakeups = max_wakeups

    @repeated
    def list(
        self,
        owner: str | None = None,
        *,
        code: str | None = None,
        kinds: Sequence[DeadKind] = (),
        limit: int = LIST_LIMIT,
    ) -> Sequence[DeadLetter]:
        """What was given up, by kind, owner and session, at most ``limit``. Raises InvalidInput, NotFound."""
        with self._open_rows(self._tenant) as rows:
            return rows.letters(_checked_owner(owner), code, kinds, checked_limit(limit, MOST_LISTED))

    @repeated
    def show(self, id_: str, *, text: bool = False) -> DeadDetail:
        """Everything about one, named by its id or the beginning of it; ``text`` adds what was said.

        Raises InvalidInput, NotFound.
        """
        with self._open_rows(self._tenant) as rows:
            (ref,) = _resolved(rows, [id_])
            found = rows.detail(ref, text=text)
        if found is None:
            raise _unknown(id_)
        return found

    def retry(self, *ids: str) -> Acted:
        """Try these again, as if they had never been tried. Raises InvalidInput, NotFound; then none is tried."""
        return self._acted(lambda rows: rows.retry(_resolved(rows, ids)))

    def retry_all(self, owner: str | None = None, *, code: str | None = None, kinds: Sequence[DeadKind] = ()) -> Acted:
        """Try everything again that was given up: of one owner, with one error, of these kinds. Raises NotFound."""

        def retry(rows: DeadRows) -> Acted:
            found = rows.letters(_checked_owner(owner), code, kinds)
            return rows.retry([DeadRef(letter.kind, letter.id) for letter in found])

        return self._acted(retry)

    def discard(self, *ids: str) -> Acted:
        """Go on without these: turns stay recallable, summaries stay as they are. Raises as ``retry``."""
        return self._acted(lambda rows: rows.discard(_resolved(rows, ids)))

    @repeated
    def _acted(self, act: Callable[[DeadRows], Acted]) -> Acted:
        """Act in one transaction, then wake the workers that have work now; the reconciler finds what a lost message
        leaves."""
        with self._open_rows(self._tenant) as rows:
            acted = act(rows)
        for queue, count in (
            (Queue.EXTRACT, acted.windows),
            (Queue.REDUCE, acted.forests),
            (Queue.REFRESH, acted.trees),
            (Queue.MAINTAIN, acted.tasks),
        ):
            if count:
                self._wakeups.send(queue, self._tenant, "dead", min(count, self._max_wakeups))
        return acted


def _checked_owner(owner: str | None) -> str | None:
    return None if owner is None else checked_name(owner, "owner")


def _resolved(rows: DeadRows, ids: Sequence[str]) -> list[DeadRef]:
    """The one unit of dead work that each id names, each once."""
    prefixes = {id_: id_.strip().lower().replace("-", "") for id_ in ids}
    for id_, prefix in prefixes.items():
        if not _ID.fullmatch(prefix):
            raise InvalidInput(
                f"Give an id, or at least its first {SHORTEST_PREFIX} characters, as memforest dead list prints it,"
                f" not {id_!r:.80}.",
                code="invalid_id",
            )
    found = rows.starting(list(prefixes.values()))
    chosen: dict[DeadRef, None] = {}
    for id_, prefix in prefixes.items():
        matching = [ref for ref in found if ref.id.hex.startswith(prefix)]
        if not matching:
            raise _unknown(id_)
        if len(matching) > 1:
            several = ", ".join(str(ref.id) for ref in matching[:MAX_NAMED])
            raise InvalidInput(
                f"{len(matching)} ids begin with {id_!r:.80}; give one whole: {several}.", code="ambiguous_id"
            )
        chosen[matching[0]] = None
    return list(chosen)


def _unknown(id_: str) -> NotFound:
    return NotFound(f"Nothing dead has the id {id_!r:.80}: see memforest dead list.")
