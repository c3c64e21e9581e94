"""Which statements about one thing a question is after, in four languages, and its wording by the one it is about."""

from __future__ import annotations

import pytest

from memforest_core.domain.temporal_question import Series, as_subject, lists_all, series_of
from tests.harness.tables import cases


@pytest.mark.parametrize(
    ("question", "series"),
    [
        ("What does Yusuf drive now?", Series.LATEST),
        ("Does she still play the flute?", Series.LATEST),
        ("Which phone does Yusuf have?", Series.LATEST),
        ("When did Ann last see her doctor?", Series.LATEST),
        ("Which phone did Yusuf use to have?", Series.BEFORE),
        ("Who was her boss before Frau Osei?", Series.BEFORE),
        ("What did she play originally?", Series.FIRST),
        ("What did she do after the fair?", Series.AFTER),
        ("How long did Ann live in Hamburg?", Series.ENDS),
        ("How often does she go climbing?", Series.ENDS),
        ("How many times a week does she swim?", Series.ENDS),
        ("How many times has he moved?", Series.ALL),
        ("Which cars has Yusuf had?", Series.ALL),
        ("What kinds of sport has Ann tried?", Series.ALL),
        ("Who are both of her sisters?", Series.ALL),
        ("What are all the places where she worked?", Series.ALL),
        ("Wie oft geht Anna klettern?", Series.ENDS),
        ("Welche Autos hat Anna?", Series.ALL),
        ("Wie viele Haustiere hatte Anna?", Series.ALL),
        ("Was fährt Anna jetzt?", Series.LATEST),
        ("¿Con qué frecuencia nada Ana?", Series.ENDS),
        ("¿Cuántos coches ha tenido Ana?", Series.ALL),
        ("¿Cuánto tiempo vivió Ana en Lima?", Series.ENDS),
        ("我多久去一次健身房？", Series.ENDS),
        ("她养过哪些宠物？", Series.ALL),
        ("她现在开什么车？", Series.LATEST),
    ],
)
def test_which_statements_of_a_series_a_question_means(question: str, series: Series) -> None:
    assert series_of(question) is series
    assert lists_all(question) is (series is Series.ALL)


@pytest.mark.parametrize(
    "question",
    [
        *cases("""
When did Ann move? | Why did he sell the boat? | Who is her boss? | What is Ann's address? | Wann ist Anna umgezogen?
¿Cuándo se mudó Ana? | 她什么时候搬家的？
"""),
        "",
    ],
)
def test_most_questions_ask_for_no_series(question: str) -> None:
    assert series_of(question) is None


@pytest.mark.parametrize(
    ("question", "name", "reported"),
    [
        ("What does Yusuf drive now?", "Yusuf", "What does I drive now?"),
        ("What colour is Ann's hair now?", "Ann", "What colour is my hair now?"),
        ("What did her hair look like when she came?", "", "What did my hair look like when I came?"),
        ("What do I drive now?", "", "What do I drive now?"),
        ("Was fährt Anna jetzt?", "Anna", "Was fährt ich jetzt?"),
        ("¿Qué coche tiene Ana ahora?", "Ana", "¿Qué coche tiene yo ahora?"),
        ("她的车现在在哪里？", "", "我的车现在在哪里？"),
    ],
)
def test_a_question_in_the_words_of_the_person_it_is_about(question: str, name: str, reported: str) -> None:
    at = question.find(name) if name else -1
    assert as_subject(question, [(at, at + len(name))] if name else []) == reported
