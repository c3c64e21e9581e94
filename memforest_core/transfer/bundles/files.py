"""Bundles as files."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from memforest_core.transfer.bundles.ids import IdTable, id_table
from memforest_core.transfer.bundles.reader import BundleReader, reading
from memforest_core.transfer.bundles.writer import BundleWriter, writing


class BundleFiles:
    """Opens files."""

    def writing(self, path: Path, overwrite: bool) -> AbstractContextManager[BundleWriter]:
        """A new bundle, written beside its name. Raises InvalidInput when it can't be, or when the name is taken."""
        return writing(path, overwrite)

    def reading(self, path: Path) -> AbstractContextManager[BundleReader]:
        """An existing one, never written to. Raises InvalidInput when it is no complete bundle of this format."""
        return reading(path)

    def ids(self) -> AbstractContextManager[IdTable]:
        """A table of ids that is gone afterwards."""
        return id_table()
