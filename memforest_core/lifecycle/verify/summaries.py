"""Whether a clean node's summary was made from what its children say now."""

from __future__ import annotations

from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import input_hash
from memforest_core.lifecycle.verify.records import Found, SummaryState

DEGRADED_PREFIX = b"degraded:"
"""Refresh stores a stand-in under another key, so that the model's own summary is not taken for made."""


def stale(node: SummaryState, budget: int) -> Found | None:
    """How the summary of a clean node is not what refresh would have left; None when it is.

    ``budget`` is the length of a summary in characters, which is part of its key.
    """
    if node.stored_version is None:
        return Found(node.node_id, "missing")
    if node.stored_version != node.version:
        return Found(node.node_id, "version")
    if node.in_flight:
        return None
    key = input_hash(node.stored_model or "", budget, node.children)
    if node.stored_source is SummarySource.DEGRADED:
        key = DEGRADED_PREFIX + key
    if node.stored_hash != key:
        return Found(node.node_id, "inputs")
    # These texts follow from the children alone.
    texts = [text for text in node.children if text]
    made = {SummarySource.PASSED: texts[0] if texts else "", SummarySource.JOINED: "\n".join(texts)}
    if node.stored_source in made and made[node.stored_source] != node.stored_text:
        return Found(node.node_id, "text")
    return None
