"""litellm imported and its call path walked once, which takes some seconds, before a test measures time."""

from __future__ import annotations

from functools import partial

from memforest_core.models.call_loop import call_loop
from memforest_core.models.litellm_runtime import litellm_module


def warm_up() -> None:
    """Make no request."""
    ask = [{"role": "user", "content": "ready?"}]
    start = partial(litellm_module().acompletion, model="openai/none", messages=ask, mock_response="yes")
    call_loop().run(start, deadline_s=30.0)
