"""What ``memforest verify`` says about a run."""

from __future__ import annotations

from benchmarks.harness import say
from memforest_core.client.services.service import open_services
from memforest_core.lifecycle.verify.service import open_verification
from tests.harness.processes import Deployment


def violations(running: Deployment) -> int:
    """How many, over everything in the database and the index; a check that could not be made counts as one."""
    services = open_services(running.settings)
    try:
        services.index.prepare()
        report = open_verification(services.engine, services.index, services.settings).run()
    finally:
        services.close()
    count = 0
    for result in report.checks:
        broken = result.violations + (result.not_checked is not None)
        if broken:
            say(f"verify: {result.check.value}: {broken} of {result.checked}, such as {result.examples[:2]}")
        count += broken
    return count
