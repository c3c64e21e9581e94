"""The language of a text is known by its script and its function words, and never guessed from a name or two."""

from __future__ import annotations

import pytest

from memforest_core.domain.languages import (
    LATIN,
    STOP_WORDS,
    guess,
    language_of,
    month_name,
    own_language,
    plausible,
    text_languages,
)
from tests.harness.tables import cases


@pytest.mark.parametrize(
    ("text", "language"),
    [
        *cases("""
Yesterday I took the ferry to the island with my aunt. => english
Gestern bin ich mit meiner Tante auf die Insel gefahren. => german
Hier, je suis allé sur l'île avec ma tante et nos cousins. => french
Ayer fui a la isla con mi tía porque hacía buen tiempo. => spanish
Ieri sono andato sull'isola con mia zia perché non pioveva. => italian
Ontem fui para a ilha com a minha tia porque não chovia. => portuguese
Gisteren ben ik met mijn tante naar het eiland gegaan. => dutch
Igår åkte jag till ön med min faster och det var roligt. => swedish
I går var jeg på øen sammen med min moster, og hvad lavede du? => danish
I går dro jeg til øya sammen med tanten min, og hva gjorde dere? => norwegian
Eilen minä olin saarella tätini kanssa, koska siellä oli juhlat. => finnish
Вчера я ездил на остров вместе с тётей. => russian
Dün ben teyzem ile adaya gittim çünkü hava çok güzeldi. => turkish
Ieri am fost pe insulă cu mătușa mea pentru că nu ploua. => romanian
Tegnap a nagynénémmel voltam a szigeten, mert nem esett az eső. => hungarian
Χθες πήγα στο νησί με τη θεία μου. => greek | ذهبت أمس إلى الجزيرة مع خالتي => arabic
कल मैं अपनी मौसी के साथ द्वीप गया था। => hindi | Anna: Mein Hund heißt Rex. => german | 昨天我和阿姨去了海岛。 => english
12:30 🎉 => english
"""),
        ("", "english"),
    ],
)
def test_the_language_of_a_sentence_is_recognized(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    "text",
    cases("""
Los Angeles to Las Vegas via El Paso | Van Gogh, Da Vinci and De Niro | The man in the hat was at war
Die Hard was on, so we sat in the den | Ella met Don and Una at a fun bar
He said 'c'est la vie' and left for the sea | We had a piñata and jalapeños at the fiesta | no way!! me too
So bad, man | Møller and Sjöberg have moved to Århus
"""),
)
def test_names_and_lookalikes_do_not_make_english_another_language(text: str) -> None:
    assert language_of(text) == "english"


@pytest.mark.parametrize("text", ["Boston", "Wow!", "Geburtstag", "Bob: haha", "", "犬"])
def test_a_text_without_function_words_shows_no_language(text: str) -> None:
    assert guess(text) is None


class TestPlausible:
    @pytest.mark.parametrize("question", ["Where does Bob live?", "Is he in Rome?", "what was it?", "How is the dog?"])
    def test_a_plain_english_question_is_in_english_only(self, question: str) -> None:
        assert plausible(question) == ("english",)

    @pytest.mark.parametrize(
        ("question", "language"),
        cases("""
Wo wohnt Anna? => german | Was hat er am Abend so gemacht? => german | Où habite Claire ? => french
¿Dónde vive Juan? => spanish | Missä koira asuu? => finnish | Hvor bor Anna? => danish | Hvor bor Anna? => norwegian
"""),
    )
    def test_a_short_question_may_be_in_several_languages_always_in_english(self, question: str, language: str) -> None:
        assert language in plausible(question)
        assert plausible(question)[-1] == "english"
        assert len(plausible(question)) <= 4

    def test_one_without_function_words_may_be_in_any(self) -> None:
        assert plausible("Geburtstag Oma?") == LATIN


def test_the_lines_of_a_text_may_differ() -> None:
    assert text_languages("Anna: Ich bin gestern nach Köln gezogen.\nBob: That is great, how do you like it?") == [
        "german"
    ]
    assert text_languages("Bob: That is great.") == []


@pytest.mark.parametrize(
    ("word", "language", "own"),
    cases("""
собака => english => russian | собака => german => russian | собака => serbian => serbian
Clara => russian => english | Clara => german => german | שלום => german => german
"""),
)
def test_a_word_belongs_to_the_language_of_its_script(word: str, language: str, own: str) -> None:
    assert own_language(word, language) == own


def test_months_are_named_by_language() -> None:
    assert month_name(5, "german") == "Mai"
    assert month_name(12, "russian") == "декабря"
    assert month_name(5, "tamil") == ""
    for language in STOP_WORDS.keys() - {"english"}:
        assert len({month_name(month, language) for month in range(1, 13)} - {""}) == 12, language


def test_every_language_has_its_function_words() -> None:
    assert all(len(words) >= 40 for words in STOP_WORDS.values())
    assert all(word == word.casefold() for words in STOP_WORDS.values() for word in words)


def test_parts_of_ids_are_no_words() -> None:
    """Romanian has the function words "ea" and "e", whose letters are hexadecimal digits."""
    assert language_of("agent-a52dac15-88ce-4e5e-8fbe-ea004ac7b9eb moved to Lisbon in May 2026.") == "english"
