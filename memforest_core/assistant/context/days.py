"""What a context needs of a calendar: today's digest, and that of the days before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memforest_core.domain.ids import TenantId
from memforest_core.store.owners import ForestRef


class DayText(Protocol):
    """A digest of a day, or of several."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str:
        """Empty when nothing was said, or nothing of it is made yet."""
        ...

    @property
    def degraded(self) -> Sequence[str]:
        """One sentence for each unavailable part."""
        ...


class Days(Protocol):
    """Where digests of days come from. A model that is unavailable is no error. Both raise StoreUnavailable."""

    def today_of(self, tenant: TenantId, forest: ForestRef) -> DayText:
        """Today's digest, by one statement when it is up to date."""
        ...

    def week_of(self, tenant: TenantId, forest: ForestRef) -> DayText:
        """That of the days before today, recent first, by one statement when it is up to date."""
        ...
