"""Text: what remains after cleaning, what two texts have in common, and where sentences end."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
import snowballstemmer

from memforest_core.domain.text import (
    STOP_WORDS,
    _stem,
    beginnings,
    clean,
    clipped,
    normalize_name,
    normalize_statement,
    numbers,
    sentences,
    signs,
    terms,
    terms_among,
    variants,
)
from tests.harness.tables import cases

SPOKEN = ("walk", "relat", "hope", "organiz", "condit", "care", "generat", "carr", "happ", "oper", "sens", "digit")


ENDINGS = (
    "",
    "s",
    "es",
    "ies",
    "ied",
    "ed",
    "edly",
    "ing",
    "ying",
    "ly",
    "ation",
    "fulness",
    "y",
    "ement",
    "sses",
    "'s",
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_terms_among_others_are_those_that_the_whole_text_has(ending: str) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [f"{a}{b}{c}{ending}" for a in letters for b in letters for c in ("", "n", "e")]
    for word in ["dying", "skis", "skies", *words]:
        assert terms_among(f"Seen: {word}", terms(word)) == set(terms(word)), word
    assert terms_among("Anna was dying while Zoé ran 5 miles", {"die", "zoe", "5", "cat"}) == {"die", "zoe", "5"}
    assert not terms_among("Anna runs", ())


def test_clean_drops_what_a_database_refuses_and_composes_the_rest() -> None:
    assert clean("a\x00b\ud800c e\u0301 🎉\n") == "abc \u00e9 🎉\n"


class TestNormalizeStatement:
    @pytest.mark.parametrize(
        "variant",
        [
            "Bob lives in Boston.",
            "bob  LIVES in\nBoston!",
            "“Bob lives in Boston.”",
            '"Bob lives in Boston".',
            "Ｂob lives in Boston…",
        ],
    )
    def test_surface_differences_do_not_count(self, variant: str) -> None:
        assert normalize_statement(variant) == "bob lives in boston"

    @pytest.mark.parametrize(
        ("one", "other"),
        cases("""
Bob paid $3.50. => Bob paid $3.5. | Bob lives in Boston. => Bob doesn't live in Boston.
The race is on May 8. => The race is on May 18. | Bob has a dog. => Bob has the dog. | It is over. => Is it over?
The dose is +5. => The dose is -5. | The switch is on. => The switch is off. | They counted 10⁵. => They counted 105.
The pipe is 5'. => The pipe is 5".
"""),
    )
    def test_numbers_dates_negations_and_words_do(self, one: str, other: str) -> None:
        assert normalize_statement(one) != normalize_statement(other)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *cases("""
Bob => bob | Bob's => bob | BOB’S => bob | Dr. Bob Miller => bob miller
the Harborline Freight, Inc. => harborline freight inc | Mr. and => and | The => the | José => josé
J. K. Rowling => j k rowling | दिल्ली => दिल्ली | 東京 => 東京
"""),
        ("!!!", ""),
    ],
)
def test_a_name_has_one_key(name: str, key: str) -> None:
    assert normalize_name(name) == key
    assert normalize_name(key) == key


class TestTerms:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            *cases("""
Running runs => run run | Where did Bob live before Miami? => bob live miami | O'Brien's dogs => o brien dog
José at the café => jose cafe | paid 2,300 dollars, 3.5 kg at 10:30 => paid 2300 dollar 3.5 kg 10:30
a 5k run => 5k run | snake_case => snake case | 東京に住む => 東 東京 京 京に に住 住 住む | 犬 => 犬 | 我的狗叫什么 => 我的 的狗 狗 狗叫 叫 叫什
2023年5月8日 => 2023 年 5 月 8 日 | 부산에 이사 => 부산 산에 이사 | 私のiPhone => 私 私の iphon | สวัสดี => สว วั ัส สด ดี
IP是10.0.0.5，体温98.3度 => ip 10.0.0.5 体 体温 温 98.3 度
दिल्ली में => दिल्ल | ٣ cats => 3 cat
"""),
            ("I don't, isn't, won't", ""),
            ("🎉 !!! …", ""),
            ("", ""),
        ],
    )
    def test_words_are_folded_stemmed_and_stripped_of_function_words(self, text: str, found: str) -> None:
        assert terms(text) == found.split()

    def test_a_named_language_has_its_own_stop_words(self) -> None:
        assert terms("was für alte Häuser, häuser", "german") == ["alt", "haus", "hauser", "haus"]
        assert terms("was für Häuser", "english") == ["fur", "hauser"]

    def test_an_unknown_language_is_refused(self) -> None:
        with pytest.raises(KeyError):
            terms("saluton mondo", "esperanto_")

    @pytest.mark.parametrize(
        ("said", "requested", "shared"),
        cases("""
Ich habe mir gestern zwei alte Häuser angesehen. => Welches Haus hat Anna sich angesehen? => 2
Unsere Wohnungen sind jetzt viel größer als früher. => Wie ist die Wohnung? => 1
Nous avons déménagé et les enfants aiment leurs écoles. => Quelle école ont les enfants ? => 2
Je travaille dans une boulangerie depuis mai. => Où est-ce que Marc travaillait ? => 1
Mis perros duermen en la cocina porque tienen frío. => ¿Dónde duerme el perro? => 1
Estamos buscando una habitación para mi hermana. => ¿Quién busca habitaciones? => 2
Вчера мы подарили бабушке рыжую собаку. => Кому подарили собак? => 2
Моя сестра работает в больнице. => Где работала сестра? => 1
Me olemme muuttaneet uuteen taloon ja koirani on iloinen. => Missä talossa koira on? => 2
Ben dün yeni bir köpek aldım ve köpeğim çok küçük. => Köpeğin adı ne? => 1
Ho comprato due gatti perché mia figlia li voleva. => Che gatto ha comprato? => 2
Mijn honden slapen in de keuken, want het is er warm. => Waar slaapt de hond? => 1
Jag har köpt nya cyklar till mina barn. => Var är cyklarna? => 1
Οι σκύλοι μου κοιμούνται στην κουζίνα. => Πού είναι ο σκύλος; => 1
"""),
    )
    def test_inflected_words_are_found_in_their_language(self, said: str, requested: str, shared: str) -> None:
        wanted = frozenset().union(*variants(requested))
        assert len(wanted & set(terms(said))) >= int(shared)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Wir waren mit Müller im Café, das war gut.", "Wir waren mit Muller im Cafe, das war gut."),
            ("Nous étions au café de la gare.", "Nous etions au cafe de la gare."),
            ("Busco una habitación para mi hermana.", "Busco una habitacion para mi hermana."),
            ("She met Zoë at the café.", "She met Zoe at the cafe."),
        ],
    )
    def test_accents_do_not_count(self, one: str, other: str) -> None:
        for requested, said in ((one, other), (other, one)):
            assert all(forms.intersection(terms(said)) for forms in variants(requested))

    @pytest.mark.parametrize("name", ["James", "Müller", "Boston", "Charles", "Zoë"])
    def test_names_and_numbers_match_across_languages(self, name: str) -> None:
        requested = frozenset().union(*variants(f"When did {name} pay 2,300?"))
        for said in (
            f"Gestern hat uns {name} die 2300 bezahlt, das war gut.",
            f"Hier nous avons vu {name} avec les 2300 dans la poche.",
            f"Ayer {name} nos dio los 2300 porque no los quería.",
            f"{name}: Вчера я заплатил 2300 за это.",
            f"{name}: 昨天我付了2300块。",
        ):
            assert len(requested & set(terms(said))) == 2, said

    def test_each_line_is_read_in_its_language(self) -> None:
        found = terms("Anna: Wir haben zwei Häuser und einen Hund.\nBob: I was running with the dogs.")
        assert {"haus", "hund", "run", "dog"} <= set(found)
        assert not {"wir", "und", "the"} & set(found)

    def test_a_line_that_shows_no_language_is_read_in_that_of_the_text(self) -> None:
        text = (
            "Anna: Wir haben uns gestern die neue Wohnung in der Stadt angesehen, und sie ist sehr schön.\nBob: Häuser?"
        )
        assert "haus" in terms(text)
        assert "hauser" in terms("Häuser?")

    @pytest.mark.parametrize(
        "text",
        cases("""
aber nicht mit uns und auch nicht ohne sie | mais nous ne sommes pas avec eux dans cette
pero nosotros también estamos con ellos | но мы были там с ними из них | ama biz onun için çok
mutta minä olen siellä heidän kanssa
"""),
    )
    def test_function_words_are_dropped(self, text: str) -> None:
        assert terms(text) == []


ENGLISH = (
    "Bob: I moved from Boston to Davis last month, and I don't miss the harbour!",
    "We'd paid $2,300.50 at 10:30; it wasn't cheap (3.5 kg, 5k run, O'Brien's dogs).",
    "Monday 8 May 2023\nAnn: No way! So cool.\nBob: Me too, man. Los Angeles in December?",
    "Zoë and José met at the café in São Paulo; the jalapeños were naïve.",
    "The man in the hat was at war with a Van Gogh.",
    "ok",
    "I’ve never been to Las Vegas, but my son has: he's won two hundred there.",
    "Thanks!! 🎉 That's so kind... see ya",
    "snake_case and x2 and 007",
)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_cut_as_ever(text: str) -> None:
    """Against the plain rule: fold, strip accents, drop stop words, stem."""
    bare = "".join(
        char
        for char in unicodedata.normalize("NFKD", text).casefold().replace("’", "'")
        if not unicodedata.combining(char)
    )
    stem = snowballstemmer.stemmer("english").stemWord
    expected: list[str] = []
    for word in re.findall(r"\d+(?:[.,:]\d+)+(?![^\W_])|[^\W_]+(?:'[^\W_]+)*", bare):
        if word[0].isdigit():
            expected.append(re.sub(r",(?=\d{3}(?!\d))", "", word))
        elif not word.endswith("n't"):
            expected += [stem(part) for part in word.split("'") if part not in STOP_WORDS]
    assert terms(text) == terms(text, "english") == expected
    assert [set(forms) for forms in variants(f"What did they say: {text}")] == [{"say"}, *({term} for term in expected)]


def test_a_search_that_stems_english_only_searches_for_beginnings() -> None:
    assert beginnings(["welche", "wohnungen", "hat", "anna"]) == {
        "wohnungen": frozenset({"wohnung"}),
        "anna": frozenset({"anna"}),
    }
    assert beginnings(["where", "are", "the", "apartments"]) == {"apartments": frozenset()}


def test_texts_without_spaces_are_searched_by_one_and_two_signs() -> None:
    assert signs(["bob", "搬到哪里"]) == ["搬", "搬到", "到", "到哪", "哪", "里"]
    assert signs(["bob"]) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I moved. I like it!", ["I moved.", "I like it!"]),
        ("I met Dr. Smith and Mrs. Jones.", ["I met Dr. Smith and Mrs. Jones."]),
        ("We left at 5 p.m. yesterday.", ["We left at 5 p.m. yesterday."]),
        ("So... you tell me. Fine.", ["So... you tell me.", "Fine."]),
        ("i live in boston. my dog is rex", ["i live in boston.", "my dog is rex"]),
        ('"Really?" he said. Then he left.', ['"Really?" he said.', "Then he left."]),
        ('He said "stop." Then left.', ['He said "stop."', "Then left."]),
        ("Biscuit and I. Fifth floor.", ["Biscuit and I.", "Fifth floor."]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ("It cost $3.50 on Jan. 5 there.", ["It cost $3.50 on Jan. 5 there."]),
        ("1. Buy milk\n2. Rest", ["1. Buy milk", "2. Rest"]),
        ("One\n\n  two", ["One", "two"]),
        ("Great! 🎉 I won", ["Great!", "🎉 I won"]),
        ("私は東京に住む。犬がいる！", ["私は東京に住む。", "犬がいる！"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_sentences_are_verbatim_parts(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
    assert all(piece in text for piece in sentences(text))


@pytest.mark.timeout(5)
@pytest.mark.parametrize("unit", [".", " ", "\n", '"', '."', ". ", " \n", "。", "a."])
def test_the_largest_turn_of_one_repeated_sign_is_cut_in_no_time(unit: str) -> None:
    text = unit * (262_144 // len(unit)) + "x"

    assert sentences(text)[-1].endswith("x")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *cases("""
1,900 dollars => 1900 | 1900.50 and 1,900.5 => 1900.5 | Three dogs and twenty cats => 20 3 | 3 dogs => 3 | 007 => 7
0 => 0 | 1,5 kg => 1.5 | at 10:30 on 2023-05-08 => 10:30 2023 5 8 | ٣ cats => 3
"""),
        ("9" * 5_000, "9" * 5_000),
        ("phone, stone, often", ""),
    ],
)
def test_numbers_compare_by_value(text: str, found: str) -> None:
    assert numbers(text) == set(found.split())


@pytest.mark.parametrize(
    ("text", "limit", "stored"),
    [
        ("short", 10, "short"),
        ("one two three", 9, "one two"),
        ("unbroken", 4, "unbr"),
        ("a bbbbbbbbbb", 8, "a bbbbbb"),
        ("anything", 0, ""),
    ],
)
def test_clipped_cuts_at_a_word_where_one_is_near(text: str, limit: int, stored: str) -> None:
    assert clipped(text, limit) == stored


def test_threads_stem_the_same_words_alike() -> None:
    """Given many threads that stem at once, as a worker's do, then each gets what one alone gets."""
    words = [f"{stem}{ending}" for stem in SPOKEN for ending in ("ing", "ed", "ations", "fulness", "ies", "ally")]
    alone = [snowballstemmer.stemmer("english").stemWord(word) for word in words]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(5):
                _stem.cache_clear()
                found = list(pool.map(lambda _: [_stem(word, "english") for word in words], range(8)))
                assert found == [alone] * 8
    finally:
        sys.setswitchinterval(before)


def test_a_name_of_many_articles_is_read_in_one_pass() -> None:
    """Given 200,000 articles before a word, then it takes about as long as so many words do, not their square."""
    started = time.thread_time()
    assert normalize_name("the " * 200_000 + "sea") == "sea"
    assert normalize_name("the " * 200_000) == "the"
    assert time.thread_time() - started < 10
