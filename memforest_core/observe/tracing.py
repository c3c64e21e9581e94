"""Opening traces from settings; the libraries are an extra, and are imported only when traces are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memforest_core.domain.extras import needed
from memforest_core.errors import InvalidSettings
from memforest_core.settings import ObserveSettings

if TYPE_CHECKING:
    from memforest_core.observe.otel import OtelTracing

TRACES_PATH = "/v1/traces"
"""Where a collector takes spans, below its base URL (OTLP over HTTP)."""


def open_tracing(settings: ObserveSettings) -> OtelTracing | None:
    """Spans to the collector that the settings name; None without one.

    Raises InvalidSettings without the extra, and for an address that is none. An unavailable collector is no error.
    """
    base = settings.otlp_endpoint
    if base is None:
        return None
    address = urlsplit(base)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise InvalidSettings(
            f"Set MEMFOREST_OBSERVE__OTLP_ENDPOINT to a URL such as http://localhost:4318; {base!r:.80} is none."
        )
    with needed("memforest[tracing]", "unset MEMFOREST_OBSERVE__OTLP_ENDPOINT"):
        from memforest_core.observe.otel import OtelTracing
    return OtelTracing(base.rstrip("/") + TRACES_PATH)
