"""Frameworks that are not installed, and who may import them."""

from __future__ import annotations

import importlib
import sys

import grimp
import pytest

from memforest_core.errors import InvalidSettings

FRAMEWORKS = {
    "ag2": ("ag2", "ag2>=1"),
    "autogen": ("autogen_agentchat", "autogen-agentchat"),
    "claude_agent": ("claude_agent_sdk", "claude-agent-sdk"),
    "crewai": ("crewai", "crewai"),
    "google_adk": ("google", "google-adk"),
    "haystack": ("haystack", "haystack-ai"),
    "langchain": ("langchain_core", "langchain-core"),
    "langgraph": ("langgraph", "langgraph"),
    "llamaindex": ("llama_index", "llama-index-core"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai-slim"),
}
"""Each module with the package that it imports, and what pip calls that."""


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_the_error_for_a_missing_package_gives_its_pip_line(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, package = FRAMEWORKS[module]
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"memforest_core.service.integrations.{module}", raising=False)

    with pytest.raises(InvalidSettings, match=f"is missing: pip install '{package}'"):
        importlib.import_module(f"memforest_core.service.integrations.{module}")


def test_each_framework_has_one_module_that_nothing_imports() -> None:
    graph = grimp.build_graph("memforest_core", include_external_packages=True, cache_dir=None)

    for module, (library, _) in FRAMEWORKS.items():
        name = f"memforest_core.service.integrations.{module}"
        assert graph.find_modules_that_directly_import(library) == {name}
        assert graph.find_modules_that_directly_import(name) == set()
