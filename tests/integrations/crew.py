"""Two crews with MemForest's memory, run by the environment that has CrewAI: prints as JSON what happened."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools.memory_tools import create_memory_tools

from memforest_core import RemoteMemForest
from memforest_core.errors import InvalidInput
from memforest_core.service.integrations.crewai import MemForestMemory


class Model(BaseLLM):
    """Answers Noted, and records what it is shown."""

    shown: list[str] = []

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        self.shown.append(json.dumps(messages, default=str))
        return "Thought: I now can give a great answer\nFinal Answer: Noted."


def shown_to_a_crew(memory: MemForestMemory, task: str) -> str:
    model = Model(model="scripted", shown=[])
    agent = Agent(role="helper", goal="Help.", backstory="A helper.", llm=model)
    done = Task(description=task, expected_output="An answer.", agent=agent)
    assert Crew(agents=[agent], tasks=[done], memory=memory, verbose=False).kickoff().raw == "Noted."
    return model.shown[0]


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except InvalidInput as error:
        return error.message
    return ""


def main(address: str, key: str, owner: str, page: str) -> dict[str, object]:
    with RemoteMemForest(address, key) as remote:

        def memory(owner: str, session_id: str, **options: Any) -> MemForestMemory:
            return MemForestMemory(memory=remote, owner=owner, session_id=session_id, **options)

        first = memory(owner, "crew-1")
        search, save = create_memory_tools(first)
        note = first.remember("I am allergic to nuts.")
        result: dict[str, object] = {
            "first": shown_to_a_crew(first, "Note that my sister Ana lives in Bergen."),
            "turns": [(turn.role, turn.name, turn.content) for turn in remote.turns(owner, "crew-1").items],
            "second": shown_to_a_crew(memory(owner, "crew-2"), "Where does Ana live?"),
            "other": shown_to_a_crew(memory(f"{owner}-2", "crew-3"), "Where does Ana live?"),
            "note": note.id if note else "",
            "allergy": first.recall("What am I allergic to?", limit=1)[0].record.content,
            "saved": save.run(contents=["Ana plays chess."]),
            "searched": search.run(queries=["What does Ana play?"]),
            "scope": refused(lambda: first.recall("Ana?", scope="/crew")),
            "private": refused(lambda: first.remember("A secret.", private=True)),
            "records": refused(lambda: first.list_records()),
        }
        memory(owner, "crew-4", read_only=True).remember_many(["No."])
        shown = Model(model="scripted", shown=[])
        exec(compile(page, "docs", "exec"), {"memory": remote, "model": shown})
        result["page"] = shown.shown[0]
        first.reset()
        result["left"] = sorted(session.id for session in remote.sessions(owner).items)
        return result


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
