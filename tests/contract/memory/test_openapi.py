"""Whatever the OpenAPI document allows, and what it does not allow, is answered as documented."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.contract.memory.conftest import Node

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
"""Requests of each operation, kind and key. make fuzz sends 10,000 in all."""
KEPT = "What this tenant keeps to itself."
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
"""A 500 is not documented."""


@schemathesis.serializer("application/x-ndjson")
def lines(_context: object, value: object) -> bytes:
    """What is sent as lines: a text as it is."""
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")


@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("kind", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
@pytest.mark.parametrize("whose", ["valid", "foreign", "none"])
def test_every_request_is_answered_as_documented(node: Node, whose: str, kind: GenerationMode) -> None:
    """Given a key, another tenant's or none, when requests are made up for each operation, then none ends in a 500,
    all answers are as the document says, and nothing of the tenant reaches a foreign key."""
    node.memory.enqueue("a", "a", [{"role": "user", "content": KEPT}], wait="raw")
    own = whose == "valid"
    secret = node.key(None if own else "foreign", requests_per_minute=1_000_000)
    headers = {} if whose == "none" else {"Authorization": f"Bearer {secret}"}
    document = schemathesis.openapi.from_url(f"{node.address}/openapi.json")
    document.config.generation.update(modes=[kind])
    sent: Counter[int] = Counter()

    for found in document.get_all_operations():
        operation = found.ok()
        if kind is GenerationMode.NEGATIVE and not operation.path.startswith("/v1"):
            continue  # takes nothing that could be wrong

        @settings(
            max_examples=EXAMPLES,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(case=operation.as_strategy(generation_mode=kind))
        def run(case: schemathesis.Case) -> None:
            answer = case.call(headers=headers, timeout=300)
            sent[answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)
            if whose != "valid":
                assert KEPT not in answer.text
            if whose == "none" and case.path.startswith("/v1"):
                assert answer.status_code == 401

        run()
    assert sent.total() >= EXAMPLES * 50
    print(f"{sent.total()} requests: {dict(sorted(sent.items()))}")
