"""OnnxCrossEncoder on real files: what it takes, what it refuses, and when it gives up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memforest_core.errors import InvalidSettings, ModelRejected, ModelUnavailable
from memforest_core.models.calls import Step, failed_call
from memforest_core.models.onnx_cross_encoder import BATCH, MAX_TOKENS, OnnxCrossEncoder
from tests.contract.rerank.shared_words import cross_encoder, tokenizer_file


def test_question_and_text_are_cut_to_what_the_model_was_trained_for(tmp_path: Path) -> None:
    """Given a graph that counts tokens, when texts are long, then none has more than MAX_TOKENS."""
    model = OnnxCrossEncoder(cross_encoder(tmp_path, types=False), timeout_s=20.0)
    short, long = model.rerank("bob", ["dog", "dog " * 2_000]).scores
    assert (short, long) == (5.0, float(MAX_TOKENS))
    assert model.rerank("bob " * 2_000, ["dog " * 2_000]).scores == [float(MAX_TOKENS)]


def test_a_long_question_leaves_room_for_the_text(tmp_path: Path) -> None:
    model = OnnxCrossEncoder(cross_encoder(tmp_path), timeout_s=20.0)
    assert model.rerank("bob " * 2_000, ["bob lives in davis"]).scores[0] > 400


def test_padding_of_the_tokenizer_file_is_not_applied(tmp_path: Path) -> None:
    directory = cross_encoder(tmp_path, types=False)
    assert tokenizer_file(directory)["padding"]["strategy"] == {"Fixed": 64}
    assert OnnxCrossEncoder(directory, timeout_s=20.0).rerank("bob", ["dog"]).scores == [5.0]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named_at_once(tmp_path: Path, name: str) -> None:
    (cross_encoder(tmp_path) / name).unlink()
    with pytest.raises(InvalidSettings, match=rf"MEMFOREST_RECALL__RERANK__PATH.*{name}"):
        OnnxCrossEncoder(tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"version https://git-lfs.github.com/spec/v1"])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes) -> None:
    (cross_encoder(tmp_path) / "model.onnx").write_bytes(content)
    with pytest.raises(InvalidSettings, match=r"model\.onnx can't be loaded"):
        OnnxCrossEncoder(tmp_path).rerank("bob", ["bob"])


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"{}", b"\xff\xfe"])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, content: bytes) -> None:
    (cross_encoder(tmp_path) / "tokenizer.json").write_bytes(content)
    with pytest.raises(InvalidSettings, match=r"tokenizer\.json is no tokenizer"):
        OnnxCrossEncoder(tmp_path).rerank("bob", ["bob"])


def test_a_graph_that_gives_no_score_a_pair_is_refused(tmp_path: Path) -> None:
    model = OnnxCrossEncoder(cross_encoder(tmp_path, outputs="tokens"))
    with pytest.raises(InvalidSettings, match="for 1 pairs"):
        model.rerank("bob", ["bob"])


def test_a_vocabulary_that_the_graph_does_not_know_is_an_error(tmp_path: Path) -> None:
    directory = cross_encoder(tmp_path)
    document = tokenizer_file(directory)
    document["model"]["vocab"]["unheard"] = 5_000
    (directory / "tokenizer.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(ModelRejected, match="can't read its input"):
        OnnxCrossEncoder(directory).rerank("bob", ["unheard"])


def test_text_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRejected, match="Unicode"):
        OnnxCrossEncoder(cross_encoder(tmp_path)).rerank("bob", ["dog \ud800"])


def test_what_is_not_read_by_the_deadline_is_given_up(tmp_path: Path) -> None:
    model = OnnxCrossEncoder(cross_encoder(tmp_path), timeout_s=1e-6)
    with pytest.raises(ModelUnavailable, match="MEMFOREST_RECALL__RERANK__TIMEOUT_S") as raised:
        model.rerank("bob", ["bob " * 200] * (4 * BATCH))
    [record] = failed_call(raised.value)
    assert (record.step, record.outcome) == (Step.RERANK, raised.value.code)


FORKING = """
import os, sys
from pathlib import Path
from memforest_core.models.onnx_cross_encoder import OnnxCrossEncoder

model = OnnxCrossEncoder(Path(sys.argv[1]), timeout_s=20.0)
assert model.rerank("bob", ["bob"]).scores == [1.0]
child = os.fork()
if child == 0:
    os._exit(0 if model.rerank("bob dog", ["bob dog"]).scores == [2.0] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_loads_its_own(tmp_path: Path) -> None:
    """In a process of its own: this one has the threads of other tests, which a fork would not."""
    ended = subprocess.run([sys.executable, "-c", FORKING, str(cross_encoder(tmp_path))], timeout=60, check=False)
    assert ended.returncode == 0
