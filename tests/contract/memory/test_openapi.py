"""Whatever the OpenAPI document allows, and what it does not allow, is answered as documented."""

from __future__ import annotations

import json
import os
from collections import Counter
from http import HTTPStatus

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS as KNOWN
from schemathesis.checks import load_all_checks

from tests.contract.memory.conftest import Node

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
"""Requests of each operation, kind and key. make fuzz sends 10,000 in all."""
STORED = "What this tenant keeps to itself."
load_all_checks()
OTHERS = {
    "not_a_server_error": "501, 502, 503 and 504 are documented; a 500 is not, so it fails as an unknown status",
    "use_after_free": "needs calls that depend on each other",
    "ensure_resource_availability": "needs calls that depend on each other",
    "object_level_authorization": "needs calls that depend on each other; foreign keys are tried here",
}
"""Checks that are not made, and why."""
CHECKS = [KNOWN.get_one(name) for name in KNOWN.get_all_names() if name not in OTHERS]
NOT_IN_A_SCHEMA = {
    "invalid_cursor": "only a page before has it",
    "not_a_bundle": "the file has a format of its own",
    "invalid_name": "there is no class of printable characters, nor a length in bytes",
    "invalid_tags": "there is no class of printable characters, nor a length without what stands around a tag",
    "invalid_date": "not every month has 31 days, nor every year 53 weeks",
    "invalid_day": "not every month has 31 days, nor every year 53 weeks",
    "invalid_time_zone": "the names are those of a database of zones",
    "invalid_timestamp": "as of a day; and unix time is a number in two ranges, which a query has as text",
    "invalid_range": "one time comes after another",
    "invalid_period": "one time comes after another",
    "invalid_vector": "the embedding model has the dimension, and a mode may need words",
    "invalid_owners": "owner and owners count together",
    "invalid_url": "a name may be of a private address",
    "same_forest": "one value differs from others",
    "same_topic": "one value differs from others",
    "missing_owner": "parameters of a query can't depend on each other",
    "no_chat_model": "the settings name the model that a mode needs",
    "unknown_source": "the settings name the sources",
    "unknown_entity": "the memory has the names",
    "already_rematerializing": "another operation has to end before",
}
"""Codes of refusals of what the document allows, and why it can't say so."""
TURNS = "Turn "
"""Messages come in the formats of several chat APIs: an error about one names its turn."""


def is_in_a_schema(answer: schemathesis.Response) -> bool:
    """Whether the document could have said what this answer refuses."""
    problem = answer.json() if answer.status_code == HTTPStatus.BAD_REQUEST else {}
    return problem.get("code") not in NOT_IN_A_SCHEMA and not str(problem.get("detail", "")).startswith(TURNS)


def is_wrong_as_sent(case: schemathesis.Case) -> bool:
    """Whether a wrong request is wrong as a server gets it: any text is lines, and a list of nothing is not sent."""
    return case.path != "/v1/sessions/stream" and [] not in dict(case.query or {}).values()


@schemathesis.serializer("application/x-ndjson")
def lines(_context: object, value: object) -> bytes:
    """What is sent as lines: a text as it is."""
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")


# Threads of the node draw random numbers while Hypothesis makes up requests, which takes it for the strategy.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("kind", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
@pytest.mark.parametrize("whose", ["valid", "foreign", "none"])
def test_every_request_is_answered_as_documented(node: Node, whose: str, kind: GenerationMode) -> None:
    """Given a key, another tenant's or none, when requests are made up for each operation, then none ends in a 500,
    all answers are as the document says, and nothing of the tenant reaches a foreign key."""
    node.memory.enqueue("a", "a", [{"role": "user", "content": STORED}], wait="raw")
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
            excused = [] if is_in_a_schema(answer) else [KNOWN.get_one("positive_data_acceptance")]
            excused += [] if is_wrong_as_sent(case) else [KNOWN.get_one("negative_data_rejection")]
            case.validate_response(answer, checks=CHECKS, excluded_checks=excused, headers=headers)
            if whose != "valid":
                assert STORED not in answer.text
            if whose == "none" and case.path.startswith("/v1"):
                assert answer.status_code == 401

        run()
    assert sent.total() >= EXAMPLES * 50
    print(f"{sent.total()} requests: {dict(sorted(sent.items()))}")
