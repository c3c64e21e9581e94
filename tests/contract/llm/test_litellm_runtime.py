"""What is taken out of litellm once it is imported, nothing of it misses."""

from __future__ import annotations

from memforest_core.models.litellm_runtime import litellm_module


def test_the_table_of_a_tokenizer_is_dropped_and_the_tokenizer_works() -> None:
    litellm = litellm_module()
    assert litellm.utils.json_data is None
    assert litellm.token_counter(model="claude-2", text="hello there you") == 3
