"""Token vectors in few bits: what they are near to stays, and the turns of a cell can be distinguished."""

from __future__ import annotations

import numpy as np
import pytest

from memforest_core.models.token_vectors import PACKED, WIDTH, TokenVectors, from_bytes, pack, to_bytes, unpack

RNG = np.random.default_rng(7)
DIRECTIONS = np.linalg.qr(RNG.normal(size=(384, WIDTH)))[0].astype(np.float32)


def states(count: int) -> np.typing.NDArray[np.float32]:
    return RNG.normal(size=(count, 384)).astype(np.float32)


def test_packed_vectors_keep_their_likeness() -> None:
    """Given states, when their token vectors are packed in four bits a number, then cosines stay within some
    hundredths."""
    many = states(200)
    exact = many @ DIRECTIONS
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    packed = pack(many, DIRECTIONS)
    assert (packed.shape, packed.dtype) == ((200, PACKED), np.uint8)
    rows = unpack(packed)
    assert (rows.shape, rows.dtype) == ((200, WIDTH), np.float32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert np.abs(rows @ rows.T - exact @ exact.T).max() < 0.12
    assert np.einsum("tw,tw->t", rows, exact).min() > 0.98


def test_a_batch_is_packed_as_its_texts_alone() -> None:
    batch = np.stack([states(6), states(6)])
    together = pack(batch, DIRECTIONS)
    assert together.shape == (2, 6, PACKED)
    for text, one in zip(batch, together, strict=True):
        np.testing.assert_array_equal(pack(text, DIRECTIONS), one)


def test_a_state_without_a_share_has_no_likeness_to_anything() -> None:
    nothing = unpack(pack(np.zeros((1, 384), np.float32), DIRECTIONS))
    assert not nothing.any()


@pytest.mark.parametrize(
    ("turns", "counts"),
    [((10,), [2, 3]), ((10, 22), [2, 2, 1]), ((10, 11, 22), [2, 0, 2, 1]), ((10, 99), [2, 3, 0]), ((0,), [0, 5])],
    ids=["one turn", "two turns", "an empty turn", "a turn that was cut off", "no date"],
)
def test_the_turns_of_a_cell_are_distinguished(turns: tuple[int, ...], counts: list[int]) -> None:
    """Given a text whose first tokens are its date, when it is stored and read, then each turn has the tokens that begin
    in it."""
    tokens = TokenVectors(pack(states(5), DIRECTIONS), [0, 4, 11, 15, 30])
    read = from_bytes(to_bytes(tokens, turns))
    parts = [read.date, *read.turns]
    assert [len(part) for part in parts] == counts
    np.testing.assert_array_equal(np.concatenate(parts), tokens.packed)


def test_a_text_without_tokens() -> None:
    read = from_bytes(to_bytes(TokenVectors(np.empty((0, PACKED), np.uint8), []), (0,)))
    assert [len(part) for part in (read.date, *read.turns)] == [0, 0]
