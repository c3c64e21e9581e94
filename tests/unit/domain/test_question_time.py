"""The time a question names: relative to the time of the question, and before it; none where no time is meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memforest_core.domain.question_time import MAX_CHARS, NamedPeriod, named_period, without_dates
from tests.harness.tables import cases

NOW = datetime(2023, 8, 15, 14, 0, tzinfo=UTC)
"""A Tuesday."""


def days(found: NamedPeriod | None) -> tuple[str | None, str | None] | None:
    """The first and last day of a period in UTC."""
    if found is None:
        return None
    return tuple(moment and f"{moment:%Y-%m-%d}" for moment in (found.first, found.last))  # type: ignore[return-value]


def requested(question: str, now: datetime = NOW, **options: datetime) -> tuple[str | None, str | None] | None:
    return days(named_period(question, now, **options))


@pytest.mark.parametrize(
    "question, first, last",
    [
        *cases("""
What did I do in May 2023? => 2023-05-01 => 2023-05-31 | What did I plant in 2022? => 2022-01-01 => 2022-12-31
Who visited on 8 May 2021? => 2021-05-08 => 2021-05-08 | What happened on 2023-05-08? => 2023-05-08 => 2023-05-08
Which trip did she book for in July 2022? => 2022-07-01 => 2022-07-31
Where was the picture of December 1,2022 taken? => 2022-12-01 => 2022-12-01
How does she feel as of March 2022? => 2022-03-01 => 2022-03-31
Where did I live in the summer of 2021? => 2021-06-01 => 2021-08-31
What happened last week? => 2023-08-07 => 2023-08-13 | Where was I yesterday? => 2023-08-14 => 2023-08-14
What did he buy 3 months ago? => 2023-05-01 => 2023-05-31
Which books did I read this year? => 2023-01-01 => 2023-12-31
In the last three weeks, what have I done? => 2023-07-25 => 2023-08-15
What has she been up to over the past few months? => 2023-04-17 => 2023-08-15
What did we paint in May? => 2023-05-01 => 2023-05-31 | What did we paint in October? => 2022-10-01 => 2022-10-31
Who visited on 8 May? => 2023-05-08 => 2023-05-08 | Who visited on 8 October? => 2022-10-08 => 2022-10-08
Who visited on the 20th of August? => 2022-08-20 => 2022-08-20
What happened in the first week of June? => 2023-06-01 => 2023-06-07
What did I eat on Friday? => 2023-08-11 => 2023-08-11 | Who did I meet Friday? => 2023-08-11 => 2023-08-11
What did they cook over Christmas? => 2022-12-24 => 2022-12-26
What did Ann do between March and June 2022? => 2022-03-01 => 2022-06-30
What did I do between 8 May and 12 June? => 2023-05-08 => 2023-06-12
What did I do from Monday to Wednesday? => 2023-08-07 => 2023-08-09
What did I do from 3 to 5 May 2022? => 2022-05-03 => 2022-05-05
What did I do between May 3 and 5? => 2023-05-03 => 2023-05-05
What changed after 8 May 2023 and before 1 June 2023? => 2023-05-09 => 2023-05-31
What did I do in April 2022 and in June 2022? => 2022-04-01 => 2022-06-30
What happened the week before 11 August 2022? => 2022-08-04 => 2022-08-10
What did we do two days after 8 May 2023? => 2023-05-09 => 2023-05-10
What happened the weekend after 8 May 2023? => 2023-05-09 => 2023-05-15
What happened in the three weeks before 20 May? => 2023-04-29 => 2023-05-19
What did she do within two weeks after 3 June? => 2023-06-04 => 2023-06-17
What happened three weeks before 20 May? => 2023-04-26 => 2023-05-02
What happened 3 weeks prior to May 20? => 2023-04-26 => 2023-05-02
What did he buy two weeks after 18 March 2023? => 2023-03-29 => 2023-04-04
What did he buy ten days before 18 March 2023? => 2023-03-07 => 2023-03-09
What happened a month after 3 April 2023? => 2023-04-27 => 2023-05-11
What happened in the week after her birthday on 3 June? => 2023-06-04 => 2023-06-10
What did I do two weeks before my last exam on 20 May? => 2023-05-03 => 2023-05-09
Where did I live before my wedding in June 2022? => 2022-06-01 => 2022-06-30
"""),
        ("Where have I worked since 2021?", "2021-01-01", None),
        ("What changed after 8 May 2023?", "2023-05-09", None),
        ("What has changed from May on?", "2023-05-01", None),
        ("Where did I live before June 2023?", None, "2023-05-31"),
        ("What was done prior to June 2023?", None, "2023-05-31"),
        ("Where did I live until last summer?", None, "2022-08-31"),
        ("What was finished by 7 November 2022?", None, "2022-11-07"),
    ],
)
def test_a_question_names_its_time(question: str, first: str | None, last: str | None) -> None:
    assert requested(question) == (first, last)


@pytest.mark.parametrize(
    "question",
    [
        *cases("""
When did I move? | Since when has she been a nurse? | How long did it take before Ann moved?
Where did I live before Miami? | May I ask what she said? | What may 3 people carry? | How many of the 12 may come?
Did they march on the city? | Did the 40 march on? | What was the second thing? | Do I like to lie in the sun?
Did he have sat down? | How old is he, 24? | Is the shop open 24/7? | Did it cost over 2000 dollars?
Was it about $2,023? | Did the crowd grow from 2000 people? | What did she want to do one day?
How far did they run in 3 days? | What did I get from May? | After May left, who came? | What did May's sister say?
What is her favourite Christmas song? | What did she buy on a Black Friday? | Which team won 3-2?
Does the song last?
"""),
        "",
        " ? ",
    ],
)
def test_a_question_without_a_time_names_none(question: str) -> None:
    assert named_period(question, NOW) is None


@pytest.mark.parametrize(
    "question, explicit",
    [
        *(
            (question, True)
            for question in cases("""
Where have I worked since 2021? | What did I do until May 2022? | What did I do between 8 May and 12 June?
What was known before June 2023? | What happened in May 2023? | Who came on 8 May?
""")
        ),
        *(
            (question, False)
            for question in cases("""
What happened in May? | What happened last week? | What have I done since last summer? | What about May 2023?
What happened in May 2023 and last week?
""")
        ),
    ],
)
def test_only_an_absolute_date_with_a_limiting_word_is_explicit(question: str, explicit: bool) -> None:
    found = named_period(question, NOW)
    assert found is not None
    assert found.explicit is explicit


def test_both_ends_lie_in_the_period_and_days_are_the_askers() -> None:
    found = named_period("What happened on 8 May 2023?", NOW.astimezone(ZoneInfo("Europe/Berlin")))
    assert found is not None
    assert found.first == datetime(2023, 5, 7, 22, tzinfo=UTC)
    assert found.last == datetime(2023, 5, 8, 21, 59, 59, 999_999, tzinfo=UTC)
    assert found.phrase == "on 8 May 2023"


def test_a_zone_may_be_a_bare_offset() -> None:
    late = datetime(2023, 8, 15, 1, 0, tzinfo=timezone(timedelta(hours=9)))
    found = named_period("What did I do yesterday?", late)
    assert found is not None
    assert found.first == datetime(2023, 8, 13, 15, tzinfo=UTC)


def test_open_dates_count_from_the_end_of_what_is_known() -> None:
    requested_later, known = datetime(2026, 2, 1, tzinfo=UTC), datetime(2023, 10, 20, tzinfo=UTC)
    assert requested("What happened in May?", requested_later) == ("2025-05-01", "2025-05-31")
    assert requested("What happened in May?", requested_later, known_until=known) == ("2023-05-01", "2023-05-31")
    assert requested("Who came on 8 December?", requested_later, known_until=known) == ("2022-12-08", "2022-12-08")
    # Relative words mean the asker's time, and a later end of what is known changes nothing.
    assert requested("What happened last year?", requested_later, known_until=known) == ("2025-01-01", "2025-12-31")
    assert requested("What happened in May?", NOW, known_until=requested_later) == ("2023-05-01", "2023-05-31")


def test_a_question_about_what_is_to_come_looks_ahead() -> None:
    assert requested("What will I do in December?") == ("2023-12-01", "2023-12-31")
    assert requested("Who is going to come on 8 October?") == ("2023-10-08", "2023-10-08")
    assert requested("What did she say she planned in December?") == ("2022-12-01", "2022-12-31")
    assert requested("What will I do in two weeks?") is not None


def test_dates_are_blanked_and_all_else_stays_in_place() -> None:
    question = "Where did Ann’s sister live before June 2023, and last week?"
    blanked = without_dates(question)
    assert len(blanked) == len(question)
    assert " ".join(blanked.split()) == "Where did Ann's sister live , and ?"


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        named_period("What happened last week?", datetime(2023, 1, 1))


_WORDS_TEXT = """
what did I do in on at since until till before after between from to and by the last next this past of may May march
sun sat second 2nd 31 30 12 5 3 2023 2000 1999 february February Monday friday weekend week days month months year
years ago two few couple one day Christmas New Year's summer fall decade will going yesterday tomorrow 9999 - , . '
1/2/3 2023-02-29 24/7 first prior onwards on hours before
"""
_WORDS = _WORDS_TEXT.split()
QUESTIONS = st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join) | st.text(st.characters(), max_size=200)
MOMENTS = st.datetimes(
    datetime(1000, 1, 2),
    datetime(2999, 12, 30),
    timezones=st.sampled_from(["UTC", "America/New_York", "Pacific/Apia", "Asia/Tokyo"]).map(ZoneInfo),
)


@settings(max_examples=400)
@given(QUESTIONS, MOMENTS, st.none() | MOMENTS)
@example("9999 decades before 2023", NOW, None)
@example("from February to 5 May", datetime(1000, 1, 2, tzinfo=UTC), None)
def test_any_text_names_an_ordered_period_or_none(question: str, now: datetime, known_until: datetime | None) -> None:
    found = named_period(question, now, known_until=known_until)
    if found is None:
        return
    assert found.first is not None or found.last is not None
    assert found.first is None or found.last is None or found.first <= found.last
    assert found.phrase
    assert found == named_period(question, now, known_until=known_until)


def test_a_very_long_text_is_read_to_a_limit() -> None:
    assert named_period("x" * MAX_CHARS + " last week", NOW) is None
