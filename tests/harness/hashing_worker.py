"""``memforest worker`` that embeds texts by their words: all of a worker's costs but the embedding model's."""

from __future__ import annotations

from memforest_core.models import model_opening
from tests.harness.hashed_words import HashedWords

MODEL = "hashed-words"
DIMENSION = 384
"""As the built-in model's."""
SETTINGS = {"MEMFOREST_EMBEDDING__MODEL": MODEL}
LAUNCHER = ("tests.harness.hashing_worker",)


def main() -> None:
    """The arguments are the command's."""
    made = {MODEL: lambda: HashedWords(MODEL, DIMENSION)}
    model_opening.BUILT_IN_EMBEDDINGS = {**model_opening.BUILT_IN_EMBEDDINGS, **made}
    from memforest_core.cli import main as command

    command()


if __name__ == "__main__":
    main()
