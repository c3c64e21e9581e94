"""What the index sees: texts under their dates, term counts that add up, and BM25 weights."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memforest_core.domain.indexed import (
    K1,
    LEAF_LENGTH,
    MAX_NODE_TERMS,
    B,
    TermCounts,
    add_counts,
    bm25_weights,
    cell_text,
    count_terms,
    fact_terms_text,
    pack_counts,
    term_index,
    unpack_counts,
)
from memforest_core.domain.text import terms, variants
from tests.harness.tables import cases

MOMENT = datetime(2023, 5, 8, 22, tzinfo=UTC)


def test_dates_and_speakers_can_be_searched() -> None:
    for text in (cell_text("Bob: I moved.", MOMENT), fact_terms_text("Bob moved.", "Bob", MOMENT)):
        assert set(terms("Bob moved Monday May 2023")) <= set(terms(text))


@pytest.mark.parametrize(
    ("said", "requested"),
    cases("""
Anna: Wir sind nach Köln gezogen und es gefällt uns sehr. => Mai 2023
Anne: Nous avons déménagé à Lyon avec les enfants. => mai 2023
Ana: Nos mudamos a Sevilla porque hay más trabajo. => 8 mayo | Анна: Мы переехали в Казань. => 8 мая 2023
Aino: Me olemme muuttaneet Turkuun, koska siellä on meri. => toukokuu 2023 | 小红: 我们搬到了上海。 => 2023年5月8日
Bob: I moved. => Monday 8 May 2023
"""),
)
def test_a_month_is_found_by_its_name_in_the_language_of_the_text(said: str, requested: str) -> None:
    wanted = [{term_index(term) for term in forms} for forms in variants(requested) if forms.isdisjoint("年月日")]
    for text in (cell_text(said, MOMENT), fact_terms_text(said.split(": ")[1], said.split(": ")[0], MOMENT)):
        counts = dict(count_terms(text).counts)
        assert wanted
        assert all(not forms.isdisjoint(counts) for forms in wanted), requested


def test_a_date_above_english_text_counts_once() -> None:
    assert dict(count_terms(cell_text("Bob: I moved.", MOMENT)).counts) == {
        term_index(term): 1.0 for term in ("monday", "8", "may", "2023", "bob", "move")
    }


def test_an_english_date_above_another_language_stays_english() -> None:
    january = datetime(2024, 1, 7, tzinfo=UTC)
    counts = dict(count_terms(cell_text("Anna: Wir sind nicht nach Köln gezogen.", january)).counts)
    assert {term_index(term) for term in terms("Sunday 7 January 2024", "english")} <= counts.keys()


def test_terms_are_counted_by_index() -> None:
    counts = count_terms("dog cat dog")

    assert dict(counts.counts) == {term_index("dog"): 2.0, term_index("cat"): 1.0}
    assert counts.length == 3.0
    assert [index for index, _ in counts.counts] == sorted(index for index, _ in counts.counts)


def test_the_counts_of_parts_are_the_counts_of_the_whole() -> None:
    parts = ["I adopted a dog", "the dog is called Rex", "Rex likes Davis"]

    assert add_counts(count_terms(part) for part in parts) == count_terms(" ".join(parts))
    assert add_counts([]) == TermCounts(())


def test_a_node_drops_its_rarest_terms_first() -> None:
    rare = TermCounts(tuple((index, 1.0) for index in range(MAX_NODE_TERMS)))
    common = TermCounts(tuple((index, 5.0) for index in range(MAX_NODE_TERMS, MAX_NODE_TERMS + 10)))

    stored = dict(add_counts([rare, common]).counts)

    assert len(stored) == MAX_NODE_TERMS
    assert {index for index, _ in common.counts} <= stored.keys()


def test_the_weights_of_a_leaf_are_bm25() -> None:
    text = "dog cat dog bird"

    indices, weights = bm25_weights(count_terms(text), leaves=1)

    assert list(indices) == sorted({term_index(term) for term in terms(text)})
    norm = K1 * (1 - B + B * 4 / LEAF_LENGTH)
    assert dict(zip(indices, weights, strict=True))[term_index("dog")] == pytest.approx(2 * (K1 + 1) / (2 + norm))


def test_length_is_measured_against_that_of_as_many_leaves() -> None:
    long = TermCounts(tuple((index, 4.0) for index in range(40)))

    _, alone = bm25_weights(long, leaves=1)
    _, of_sixteen = bm25_weights(long, leaves=16)

    assert of_sixteen[0] > alone[0]
    assert bm25_weights(long, leaves=0) == bm25_weights(long, leaves=1)


@pytest.mark.parametrize("text", ["", "dog", "one dog, two dogs, 1,900 dollars, Zoë 狗"])
def test_counts_survive_storage(text: str) -> None:
    counts = count_terms(text)

    assert unpack_counts(pack_counts(counts)) == counts
    assert len(pack_counts(counts)) == 8 * len(counts.counts)


def test_an_index_is_the_same_in_every_process_and_fits_32_bits() -> None:
    assert term_index("boston") == 3_425_844_585
    assert all(0 <= term_index(f"term{number}") < 2**32 for number in range(1_000))
