"""Bundles as files."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from memforest_core.transfer.bundles.ids import id_table
from memforest_core.transfer.bundles.reader import reading
from memforest_core.transfer.bundles.records import BundleReader, BundleWriter, IdTable
from memforest_core.transfer.bundles.writer import writing


class SqliteBundles:
    """BundleFiles over the file system."""

    def writing(self, path: Path, overwrite: bool) -> AbstractContextManager[BundleWriter]:
        return writing(path, overwrite)

    def reading(self, path: Path) -> AbstractContextManager[BundleReader]:
        return reading(path)

    def ids(self) -> AbstractContextManager[IdTable]:
        return id_table()
