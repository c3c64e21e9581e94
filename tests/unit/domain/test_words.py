"""The signals of recall in German, Spanish, French, Chinese and Japanese, and what a language's words must have."""

from __future__ import annotations

import pytest

from memforest_core.domain.temporal_question import (
    NO_ORDER,
    answering_terms,
    current_attributes,
    is_about_still,
    order_of,
    previous_attributes,
    question_attributes,
    telling_terms,
)
from memforest_core.domain.text import terms
from memforest_core.domain.words import ENGLISH, LANGUAGES, words_in, words_of
from memforest_core.domain.words.records import NEVER, Attribute, Words
from memforest_core.recall.plan import leans
from memforest_core.recall.question import parse_question
from tests.harness.tables import cases
from tests.unit.domain.test_temporal_question_order import position


class TestTheLanguage:
    @pytest.mark.parametrize(
        ("question", "language"),
        cases("""
Where did I live before Miami? => english | Wo habe ich vor Berlin gewohnt? => german
¿Dónde vivía yo antes de Madrid? => spanish | 我现在住在哪里？ => chinese | Alice现在住在哪里？ => chinese
Where does 小虎 live? => english | Où est-ce que je travaille maintenant ? => french | 猫の名前は何ですか => japanese
犬の名前は 강아지 => english
"""),
    )
    def test_is_the_first_that_a_question_is_read_by(self, question: str, language: str) -> None:
        assert words_of(question)[0].language == language

    def test_of_a_question_that_shows_it_is_the_only_one(self) -> None:
        for question in ("Where did I live before Miami?", "Wo habe ich vor Berlin gewohnt?", "我现在住在哪里？"):
            assert len(words_of(question)) == 1

    def test_is_english_and_others_when_no_word_shows_it(self) -> None:
        assert words_of("Miete aktuell?")[0] is ENGLISH
        assert "german" in {words.language for words in words_of("Miete aktuell?")}


@pytest.mark.parametrize("words", [words_in(language) for language in LANGUAGES], ids=LANGUAGES)
class TestEveryLanguage:
    def test_words_every_attribute(self, words: Words) -> None:
        assert set(words.wordings) == set(Attribute)
        for attribute in Attribute:
            assert telling_terms([attribute], words)

    def test_names_attributes_as_facts_do(self, words: Words) -> None:
        known = {attribute for attribute, _ in ENGLISH.now.named} | {"rent"}
        assert {attribute for attribute, _ in (*words.now.plain, *words.now.named)} <= known

    def test_says_how_its_speakers_speak_of_themselves(self, words: Words) -> None:
        series = words.series
        assert words.first_person.found({series.i.casefold()}, series.i)
        assert words.first_person.found({series.my}, series.my) or series.my.startswith(series.i)
        assert not series.every.search("")

    def test_has_the_groups_that_are_read(self, words: Words) -> None:
        order = words.order
        assert all({"word", "rest"} <= side.groupindex.keys() for side in order.sides)
        for pattern, groups in (
            (order.between, {"one", "other"}),
            (order.after_and_before, {"one", "other"}),
            (words.now.what_is, {"what"}),
        ):
            assert pattern is NEVER or groups <= pattern.groupindex.keys()


@pytest.mark.parametrize(
    "question",
    cases("""
Wo wohne ich? | Was ist mit meiner Miete passiert? | Wer hat mir geholfen? | ¿Dónde está mi bicicleta?
¿Cuándo compré la bicicleta? | ¿Qué libros he leído? | ¿Cuántos libros tengo en casa? | 我的自行车在哪里？
Où est mon vélo ? | 俺の自転車はどこ？
"""),
)
def test_the_asker_may_speak_of_themselves(question: str) -> None:
    assert parse_question(question).first_person


@pytest.mark.parametrize(
    "question",
    [
        "Wo wohnt Michael?",
        "¿Dónde vive Marta?",
        "¿Quién está allí con José?",
        "马雷克住在哪里？",
        "我们住在哪里？",
        "Où habite Marc ?",
        "健太はどこに住んでる？",
    ],
)
def test_or_of_others(question: str) -> None:
    assert not parse_question(question).first_person


ORDERS = cases("""
Wo habe ich vor Berlin gewohnt? => before Berlin
Wo habe ich gewohnt, bevor ich nach Berlin gezogen bin? => before ich nach Berlin gezogen bin
Was habe ich vor meiner Stelle bei Siemens gemacht? => before meiner Stelle bei Siemens
Wo habe ich früher gewohnt? => before | Was habe ich nach der Ausbildung gemacht? => after der Ausbildung
Wohin bin ich danach gezogen? => after | Wo war ich zwischen Graz und Wien? => between Graz / Wien
Was war meine erste Arbeit? => first | Wo wohne ich jetzt? => latest | Wohnt Anna noch in Graz? => latest
Wie lange habe ich in Graz gewohnt? => duration
¿Dónde vivía yo antes de Madrid? => before Madrid
Antes de mudarme a Madrid, ¿dónde vivía yo? => before mudarme a Madrid | ¿Cuál era mi trabajo anterior? => before
¿Qué hice después de la boda? => after la boda | ¿Adónde me mudé luego? => after
¿Dónde viví entre Lima y Quito? => between Lima / Quito | ¿Cuál fue mi primer trabajo? => first
¿Dónde vivo ahora? => latest | ¿Cuánto tiempo viví en Lima? => duration | 搬到杭州之前我住在哪里？ => before 搬到杭州
我以前住在哪里？ => before | 结婚之后我搬到了哪里？ => after 结婚 | 手术后谁照顾我？ => after 手术 | 后来我去了哪里？ => after
北京和杭州之间我住在哪里？ => between 北京 / 杭州 | 我的第一份工作是什么？ => first | 我现在住在哪里？ => latest | 我在杭州住了多久？ => duration
Où habitais-je avant Lyon ? => before Lyon | Qu'est-ce que j'ai fait après le mariage ? => after le mariage
Où vivait Marc entre Lyon et Nantes ? => between Lyon / Nantes | Quel était mon premier travail ? => first
Où habite Marc maintenant ? => latest | 立川に引っ越す前はどこに住んでた？ => before 立川に引っ越す
合唱をやめたあとは何をした？ => after 合唱をやめた | 京都を出てから立川に着くまではどこにいた？ => between 京都を出 / 立川に着く
最初の仕事は何だった？ => first | 最後に買った車は？ => latest | 健太が前に住んでた町は？ => before | Où vivait Marc apres Lyon ? => after Lyon
健太は今どこに住んでる？ => latest | 健太は京都に何年間住んだ？ => duration
Sobald der Laden zu war, wo war ich? => after der Laden zu war | Qui a remplacé Desta ? => after Desta
Una vez que dejé Lima, ¿dónde viví? => after dejé Lima | ¿Quién sustituyó a Ana? => after a Ana
""")


@pytest.mark.parametrize(("question", "requested"), ORDERS)
def test_a_place_in_the_order_of_time(question: str, requested: str) -> None:
    assert position(question) == requested


@pytest.mark.parametrize(
    "question",
    cases("""
Wann bin ich nach Berlin gezogen? | Was habe ich vor drei Jahren gekauft? | Was habe ich vor einer Woche gegessen?
Wer hat Angst vor dem Hund? | Was mache ich nach der Arbeit? | Was ist der Unterschied zwischen Graz und Wien?
Was habe ich letzte Woche gelesen? | Wo habe ich noch gesucht? | ¿Qué hago antes de dormir?
¿Qué leí la semana pasada? | ¿Cuál es la diferencia entre Lima y Quito? | 三天前我买了什么？ | 睡觉前我做什么？ | 北京和杭州之间的区别是什么？
我妹妹叫什么名字？ | Qu'est-ce que j'ai lu la semaine dernière ? | Quelle est la différence entre Lyon et Nantes ?
猫の名前は何ですか | 何月何日に引っ越した？ | Où suis-je allé l'an dernier ? | Où vivait Marc avant l'été ?
犬の名前の由来は？ | 仕事は何時から何時まで？ | 今まで何匹の犬を飼った？ | この前会ったのは誰？
"""),
)
def test_no_order_is_meant(question: str) -> None:
    assert order_of(question) == NO_ORDER


@pytest.mark.parametrize(
    ("question", "attribute"),
    cases("""
Wo wohnt Anna? => residence | In welcher Stadt lebt meine Schwester? => residence | Wo arbeitet Anna jetzt? => job
Was macht Anna beruflich? => job | Arbeitet Anna noch bei Siemens? => job | Ist Anna verheiratet? => relationship
Welches Haustier hat Anna? => pet | Welches Auto fährt Anna? => possession | Wie viel wiege ich? => weight
Wie hoch ist meine Miete? => rent | ¿Dónde vive Ana? => residence | ¿En qué ciudad vive mi hermana? => residence
¿De qué trabaja Ana? => job | ¿Sigue Ana en la empresa? => job | ¿Está Ana casada? => relationship
¿Qué mascota tiene Ana? => pet | ¿Qué coche tiene Ana? => possession | ¿Cuánto peso yo? => weight
¿Cuál es mi alquiler? => rent | 安娜住在哪里？ => residence | 安娜现在在哪里上班？ => job | 安娜做什么工作？ => job | 安娜结婚了吗？ => relationship
安娜养什么宠物？ => pet | 安娜开什么车？ => possession | 我现在的体重是多少？ => weight | 我的房租是多少？ => rent
Où habite Anna ? => residence | Où est-ce que tu travailles ? => job | Combien pèse Anna ? => weight | Quel est mon loyer ? => rent
アンナはどこに住んでる？ => residence | アンナは今どこで働いてる？ => job | 俺の家賃はいくら？ => rent
"""),
)
def test_a_question_about_now_names_its_attribute(question: str, attribute: str) -> None:
    assert attribute in current_attributes(question)


@pytest.mark.parametrize(
    "question",
    cases("""
Wo hat Anna gewohnt? | Wo wohnte Anna? | Wo habe ich vor Graz gewohnt? | Wo wird Anna wohnen?
Wie lange wohne ich in Graz? | ¿Dónde vivía Ana? | ¿Dónde ha vivido Ana? | ¿Dónde va a vivir Ana?
¿Dónde vivía yo antes de Lima? | 安娜以前住在哪里？ | 安娜住过哪里？ | 安娜打算住在哪里？ | Où habitait Anna ? | Où Anna va habiter ?
アンナはどこに住んでいた？ | いつ結婚した？ | 何キロ走った？ | Quand s'est-elle mariée ? | Avec qui est-ce qu'Anna travaille ?
"""),
)
def test_other_questions_ask_for_no_present_state(question: str) -> None:
    assert current_attributes(question) == frozenset()


@pytest.mark.parametrize(
    "question",
    [
        "Wohnt Anna immer noch in Graz?",
        "¿Todavía vive Ana en Lima?",
        "安娜还住在杭州吗？",
        "Anna habite toujours à Lyon ?",
        "アンナはまだ京都に住んでる？",
    ],
)
def test_whether_something_goes_on(question: str) -> None:
    assert is_about_still(question)


@pytest.mark.parametrize(
    "question", ["Was hat Anna noch gekauft?", "Hat Anna noch nie gewohnt?", "¿Dónde vive Ana?", "安娜还买了什么？"]
)
def test_or_not(question: str) -> None:
    assert not is_about_still(question)


@pytest.mark.parametrize(
    ("question", "attribute"),
    cases("""
Wo habe ich vor Graz gewohnt? => residence | Was war meine vorherige Stelle? => job
¿Dónde vivía yo antes de Lima? => residence | ¿Cuál era mi trabajo anterior? => job | 搬到杭州之前我住在哪里？ => residence
我以前做什么工作？ => job
"""),
)
def test_a_question_about_an_earlier_state_names_its_attribute(question: str, attribute: str) -> None:
    assert attribute in previous_attributes(question)


@pytest.mark.parametrize(
    ("question", "attribute", "statement"),
    cases("""
Wo hat Anna gewohnt? => residence => Wir sind in eine Wohnung in Graz gezogen.
Als was hat Anna gearbeitet? => job => Ich habe gekündigt.
Welches Haustier hatte Anna? => pet => Seit gestern haben wir ein Kaninchen.
Wie viel hat Anna gewogen? => weight => 82 Kilo heute früh.
Wie ist der Stand des Projekts? => status => Der Entwurf ist fertig.
¿Dónde ha vivido Ana? => residence => Nos mudamos a un piso en Lima.
¿De qué ha trabajado Ana? => job => Empecé de camarera en un café.
¿Qué mascotas ha tenido Ana? => pet => Desde ayer tenemos un conejo.
¿Cuánto ha pesado Ana? => weight => 82 kilos esta mañana.
¿Cómo va el proyecto de Ana? => status => El borrador está entregado. | 安娜住过哪里？ => residence => 我们搬到了杭州的公寓。
安娜做过什么工作？ => job => 我上周辞职了。 | 安娜养过什么宠物？ => pet => 昨天我们养了一只兔子。 | 安娜的体重是多少？ => weight => 今天早上82公斤。
安娜的项目进展怎么样？ => status => 草稿完成了。
"""),
)
def test_a_state_is_found_though_the_question_has_other_words(question: str, attribute: str, statement: str) -> None:
    requested = parse_question(question)
    assert attribute in {one for words in requested.spoken for one in question_attributes(requested.terms, words)}
    assert not answering_terms(requested.terms, requested.spoken).isdisjoint(terms(statement))


def test_a_question_in_one_language_is_answered_by_its_words_only() -> None:
    requested = parse_question("Welches Haustier hatte ich vor dem Hund?")
    assert "kaninch" in answering_terms(requested.terms, requested.spoken)
    assert answering_terms(requested.terms, requested.spoken).isdisjoint({"puppi", "conej"})


def test_several_attributes_may_be_meant_without_the_residence() -> None:
    found = question_attributes(terms("Which dog does she take to work?"))
    assert set(found) == {Attribute.PET, Attribute.JOB}


@pytest.mark.parametrize(
    "question",
    cases("""
Und danach? | Was ist mit seiner Schwester? | Wo wohnt sie jetzt? | Wann hat er das gekauft?
Wie viel hat es gekostet, und wer war dort? | ¿Y después? | ¿Cómo se llama su perro? | ¿Dónde vive ella ahora?
¿Cuándo la compré en la tienda? | ¿Quién estaba con nosotros allí? | Où habite-t-elle ? | 那他的妹妹叫什么名字呢？ | 她现在住在哪个城市？ | 你是什么时候去那里的？
"""),
)
def test_leans_on_what_was_said(question: str) -> None:
    assert leans(question)


@pytest.mark.parametrize(
    "question",
    cases("""
Wo wohnt Clara jetzt? | Wie heißt Claras Hund und wie alt ist er? | Was habe ich heute früh gemacht?
¿Dónde vive Clara? | ¿Cómo se llama el perro de Clara y qué edad tiene su gato? | ¿Qué fue lo que compré el lunes?
¿Dónde vivo ahora? | 克拉拉现在住在哪个城市？ | 我这个周末要做什么？ | Où étais-je en mars ? | 我其他的书放在哪里？
"""),
)
def test_a_question_that_needs_no_earlier_turn(question: str) -> None:
    assert not leans(question)
