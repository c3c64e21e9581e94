"""A worker that is killed while it posts: the event is posted again, under the same id."""

from __future__ import annotations

from pathlib import Path

from tests.harness.processes import deployment
from tests.harness.receiver import receiver
from tests.harness.sayings import said
from tests.harness.servers import SessionServers
from tests.harness.timing import until

PATIENCE_S = 60.0


def test_what_a_killed_worker_had_posted_is_posted_again(servers: SessionServers, tmp_path: Path) -> None:
    """Given a worker that is killed with -9 after its message has come and before that is noted, when another one
    runs, then the same message comes again, and both stages of the session are reported."""
    allowed = {"MEMFOREST_WEBHOOKS__ALLOW_PRIVATE": "true"}
    with receiver() as reported, deployment(servers, tmp_path, offline=True, settings=allowed) as running:
        client = running.client()
        made = client.webhooks.create(reported.url, ["session.facts_ready", "session.ready"])
        first = running.start_worker()

        def kill() -> None:
            reported.meanwhile = lambda: None
            running.kill(first)

        reported.meanwhile = kill
        client.enqueue("bob", "s1", said("I moved from Boston to Davis.", "I live with my sister Ann."))
        until(lambda: first.poll() is not None, failure=running.log_tail)
        running.start_worker()
        until(lambda: {each.state for each in client.webhooks.deliveries().items} == {"done"}, failure=running.log_tail)

        messages = reported.verified(made.secret)
        assert {message["type"] for message in messages} == {"session.facts_ready", "session.ready"}
        assert len(set(reported.ids)) == 2
        assert reported.ids.count(reported.ids[0]) == 2
        assert client.status("bob", "s1").ready
        client.close()
