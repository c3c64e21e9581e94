"""A forest out to one file and in again, driven by the process that has the file."""

from __future__ import annotations

from pathlib import Path

from memforest_core.domain.ids import TenantId
from memforest_core.transfer.bundles.export import ExportService, Watch, unwatched
from memforest_core.transfer.bundles.importing import ImportService
from memforest_core.work.records import Numbers

__all__ = ["Bundles", "Watch"]


class Bundles:
    """Both directions. Thread-safe."""

    def __init__(self, exports: ExportService, imports: ImportService) -> None:
        self._exports = exports
        self._imports = imports

    def export(
        self,
        tenant: TenantId,
        owner: str,
        path: Path,
        *,
        actor: str,
        vectors: bool = True,
        summaries: bool = True,
        overwrite: bool = False,
        dry_run: bool = False,
        watch: Watch = unwatched,
    ) -> Numbers:
        """Write an owner's forest to ``path``; what was written, as counts (``rows``, each table, ``bytes``).

        The file gets its name when it is whole; until then it is ``path`` with ".part" behind it, and an export that
        was killed is begun anew by the next one. Raises InvalidInput for a name that is taken or can't be written,
        NotFound, StoreUnavailable.
        """
        return self._exports.run(
            tenant,
            owner,
            path,
            actor=actor,
            with_vectors=vectors,
            with_summaries=summaries,
            overwrite=overwrite,
            dry_run=dry_run,
            watch=watch,
        )

    def import_(
        self,
        tenant: TenantId,
        path: Path,
        owner: str | None = None,
        *,
        actor: str,
        vectors: bool = True,
        dry_run: bool = False,
        watch: Watch = unwatched,
    ) -> Numbers:
        """Make a bundle an owner's memory (by default whose it was); what was imported, as counts.

        Everything is checked before anything is written; nobody sees the forest before it is whole. After an
        interruption the same call goes on where it stood; once it is done, it does nothing and says so (``already``).
        Without ``vectors`` its texts are embedded anew, by this process. Raises InvalidInput for a bundle that is
        damaged, of another format or of another embedding model, and for an owner who has a memory already;
        ImportTakenOver; ModelUnavailable and its kin; StoreUnavailable.
        """
        return self._imports.run(
            tenant, path, owner, actor=actor, without_vectors=not vectors, dry_run=dry_run, watch=watch
        )
