"""Which statements about one thing a question is after, in four languages, and its wording by the one it is about."""

from __future__ import annotations

import pytest

from memforest_core.domain.temporal_question import Order, as_subject, lists_all, series_of
from tests.harness.tables import cases


@pytest.mark.parametrize(
    ("question", "order", "listing"),
    [
        ("What does Yusuf drive now?", Order.LATEST, False),
        ("Does she still play the flute?", Order.LATEST, False),
        ("Which phone does Yusuf have?", Order.LATEST, False),
        ("When did Ann last see her doctor?", Order.LATEST, False),
        ("Which phone did Yusuf use to have?", Order.BEFORE, False),
        ("Who was her boss before Frau Osei?", Order.BEFORE, False),
        ("What did she play originally?", Order.FIRST, False),
        ("What did she do after the fair?", Order.AFTER, False),
        ("How long did Ann live in Hamburg?", Order.NONE, False),
        ("How often does she go climbing?", Order.DURATION, False),
        ("How many times a week does she swim?", Order.DURATION, False),
        ("How many times has he moved?", Order.ALL, True),
        ("Which cars has Yusuf had?", Order.ALL, True),
        ("What kinds of sport has Ann tried?", Order.ALL, True),
        ("Who are both of her sisters?", Order.ALL, True),
        ("What are all the places where she worked?", Order.ALL, True),
        ("List everywhere they went, please", Order.ALL, True),
        ("What became of each of her phones?", Order.ALL, True),
        ("What has Ann knitted over the years?", Order.ALL, True),
        ("Wie oft geht Anna klettern?", Order.DURATION, False),
        ("Welche Autos hat Anna?", Order.ALL, True),
        ("In welchen Städten hat Anna gespielt?", Order.ALL, True),
        ("Wie viele Haustiere hatte Anna?", Order.ALL, True),
        ("Was fährt Anna jetzt?", Order.LATEST, False),
        ("¿Con qué frecuencia nada Ana?", Order.DURATION, False),
        ("¿Cuántos coches ha tenido Ana?", Order.ALL, True),
        ("¿Qué cosas se le han roto a Ana?", Order.ALL, True),
        ("¿Cuánto tiempo vivió Ana en Lima?", Order.NONE, False),
        ("我多久去一次健身房？", Order.DURATION, False),
        ("她养过哪些宠物？", Order.ALL, True),
        ("她现在开什么车？", Order.LATEST, False),
    ],
)
def test_which_statements_of_a_series_a_question_means(question: str, order: Order, listing: bool) -> None:
    assert series_of(question) is order
    assert lists_all(question) is listing


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
    assert series_of(question) is Order.NONE
    assert not lists_all(question)


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
