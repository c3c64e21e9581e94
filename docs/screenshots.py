"""Pictures of the explorer's pages for docs/explorer.md, from the demo's conversation: python -m docs.screenshots.

Needs Chromium and the package's development extras.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

from memforest_core.cli.demo_data import load_conversation
from memforest_core.client.api import MemForest
from memforest_core.service.explorer.page_requests import href
from memforest_core.service.http.serving import HttpServer, listen
from memforest_core.service.keys.service import Keys
from tests.harness.chromium import Chromium, Tab

FOLDER = Path(__file__).parent / "pictures"
OWNER = "bob"
DESK, PHONE = 1_400, 390
DESK_PIXELS, PHONE_PIXELS = 1_100, 1_200
"""Height that a picture shows at most."""
COLOURS = 256
MAX_BYTES = 150_000


def main() -> None:
    """Make all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, MemForest.embedded(Path(directory) / "data") as memory:
        receipt = fill(memory)
        key = Keys(memory.services.engine).create(memory.tenant, "docs", scope="admin").secret
        server = HttpServer(memory, listen("127.0.0.1", 0))
        server.start()
        try:
            with Chromium(Path(directory)).tab() as tab:
                tab.resize(DESK)
                tab.open(server.address)
                taken(tab, "login")
                tab.fill("#key", key)
                tab.follow("Log in")
                pages(tab, server.address, receipt)
        finally:
            server.stop()


def fill(memory: MemForest) -> str:
    """Store the demo's conversation with a correction, a policy and a forgotten turn; the page of its receipt."""
    for session in load_conversation():
        memory.ingest(session.owner, session.session_id, list(session.turns))
    memory.flush(OWNER)
    lifecycle = memory.lifecycle
    lifecycle.set_policy(max_age_days=1_825, digests_max_age_days=730, actor="docs")
    lifecycle.set_policy(OWNER, max_facts=10_000, actor="docs")
    weight = next(fact for fact in memory.facts(OWNER, attribute="weight").items if "176 pounds" in fact.text)
    lifecycle.correct(OWNER, weight.id, text="Bob weighs 175 pounds.", value="175 pounds", actor="docs").wait()
    forgotten = lifecycle.forget(OWNER, session="chat-2025-04-06", turns=["chat-2025-04-06-13"], actor="docs")
    forgotten.wait()
    memory.flush(OWNER)
    return href("/operation", id=forgotten.id, owner=OWNER)


def pages(tab: Tab, address: str, receipt: str) -> None:
    """A picture of each page, and of some as they are on a phone and in the dark."""
    tab.open(address + href("/trees", owner=OWNER))
    tree = str(
        tab.run("[...document.querySelectorAll('main a')].find(a => a.innerText === 'Bob').getAttribute('href')")
    )
    tab.open(address + href("/facts", owner=OWNER, attribute="residence"))
    fact = str(tab.run("document.querySelector('main table a').getAttribute('href')"))
    question = "Where did Bob live before Miami?"
    found = {
        "overview": "/",
        "search": href("/search", q="Maya"),
        "owners": "/owners",
        "owner": href("/owner", owner=OWNER),
        "states": href("/states", owner=OWNER),
        "facts": href("/facts", owner=OWNER),
        "graph": href("/graph", owner=OWNER),
        "fact": fact,
        "topics": href("/topics", owner=OWNER),
        "days": href("/days", owner=OWNER),
        "trees": href("/trees", owner=OWNER),
        "tree": f"{tree}&{urlencode({'question': question})}",
        "session": href("/session", owner=OWNER, session="chat-2025-04-06"),
        "ask": href("/ask", owner=OWNER, question=question),
        "context": href("/context", owner=OWNER, question=question),
        "operations": "/operations",
        "operation": receipt,
        "audit": "/audit",
        "policies": "/policies",
        "dead": "/dead",
        "costs": "/costs",
    }
    for name, path in found.items():
        tab.open(address + path)
        taken(tab, name)
    for name in ("overview", "owner", "states", "tree", "ask", "graph"):
        tab.resize(DESK, dark=True)
        tab.open(address + found[name])
        taken(tab, f"{name}-dark")
        tab.resize(PHONE)
        tab.open(address + found[name])
        taken(tab, f"{name}-phone", PHONE_PIXELS)


def taken(tab: Tab, name: str, height: int = DESK_PIXELS) -> None:
    """A picture of the page as it is, in few colours."""
    file = tab.picture(FOLDER / f"{name}.png", height)
    with Image.open(file) as whole:
        few = whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{file} has {size:,} bytes: show less of it.")
    print(f"{file.name}: {size:,} bytes")


if __name__ == "__main__":
    main()
