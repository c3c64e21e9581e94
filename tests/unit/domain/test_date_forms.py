"""The forms of dates that people write: found word by word and read, and what only looks like a date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memforest_core.domain.dates import find_date_phrases, resolve
from memforest_core.domain.times import Precision
from tests.harness.tables import cases

SATURDAY = datetime(2025, 3, 1, 1, tzinfo=UTC)
SUNDAY = datetime(2023, 5, 21, 10, tzinfo=UTC)


def read(sentence: str, said_at: datetime = SATURDAY, future: bool | None = None) -> list[str]:
    """What each date phrase of a sentence means: "first..last precision", or one day or minute."""
    found = []
    for phrase in find_date_phrases(sentence):
        span = resolve(phrase, said_at, "UTC", (), future=future)
        assert span.start is not None, phrase
        assert span.end is not None
        first, last = f"{span.start:%Y-%m-%d}", f"{span.end - timedelta(seconds=1):%Y-%m-%d}"
        days = first if first == last else f"{first}..{last}"
        if span.precision is Precision.MINUTE:
            days = f"{span.start:%Y-%m-%dT%H:%M}"
        found.append(f"{days} {span.precision.value}")
    return found


@pytest.mark.parametrize(
    ("sentence", "meant"),
    cases("""
I moved on 8.5.2023 to Rome. => 2023-05-08 day | We met on 08.05.2023. => 2023-05-08 day
Born 23.11.1987 in Graz. => 1987-11-23 day | Signed on 08.05.23. => 2023-05-08 day | on 15-07-2024 => 2024-07-15 day
on 07-15-2024 => 2024-07-15 day | on 15/07/2024 => 2024-07-15 day | on 15/07/24 => 2024-07-15 day
on 7/15/2024 => 2024-07-15 day | on 5/8/2023 => 2023-05-08 day | on 2024/07/15 at noon => 2024-07-15 day
on 2024.07.15 => 2024-07-15 day | in 2024-07 => 2024-07-01..2024-07-31 month
since 2024-11 => 2024-11-01..2024-11-30 month | in 07/2024 => 2024-07-01..2024-07-31 month
in 2024/07 we met => 2024-07-01..2024-07-31 month | on 15-Jul-2024 => 2024-07-15 day
on 15. July 2024 => 2024-07-15 day | on July 15th, 2024 => 2024-07-15 day
on the 15th of July, 2024 => 2024-07-15 day | on the fifteenth of July 2024 => 2024-07-15 day
on June first => 2025-06-01 day | on the twenty-first of May 2024 => 2024-05-21 day
in July '24 => 2024-07-01..2024-07-31 month | summer of '69 => 1969-06-01..1969-08-31 year
I was there in '98. => 1998-01-01..1998-12-31 year | 2024-07-15T10:30:00Z => 2024-07-15T10:30 minute
at 2024-07-15T10:30:00+02:00 it failed => 2024-07-15T08:30 minute | 2024-07-15 10:30 => 2024-07-15T10:30 minute
half an hour ago => 2025-03-01 day | 90 minutes ago => 2025-02-28 day | an hour and a half ago => 2025-02-28 day
I landed 3 hours ago. => 2025-02-28 day | two and a half hours ago => 2025-02-28 day | 3 hrs ago => 2025-02-28 day
10 mins ago => 2025-03-01 day | a couple of hours ago => 2025-02-28 day | a few hours ago => 2025-02-28 day
a few minutes ago => 2025-03-01 day | 48 hours ago => 2025-02-27 day | the day before yesterday => 2025-02-27 day
day before yesterday => 2025-02-27 day | the night before last => 2025-02-27 day
the day after tomorrow => 2025-03-03 day | in a fortnight's time => 2025-03-12..2025-03-18 week
in two weeks' time => 2025-03-12..2025-03-18 week | in three days' time => 2025-03-04 day
in three days => 2025-03-04 day | three days from now => 2025-03-04 day | a week from today => 2025-03-08 day
a week from tomorrow => 2025-03-09 day | two weeks from Monday => 2025-03-17 day | a year ago today => 2024-03-01 day
three years ago yesterday => 2022-02-28 day | a year and a half ago => 2023-01-01..2023-12-31 year
two and a half years ago => 2022-01-01..2022-12-31 year | a month and a half ago => 2025-01-01..2025-01-31 month
two or three weeks ago => 2025-02-05..2025-02-11 week | the week after next => 2025-03-10..2025-03-16 week
the year before last => 2023-01-01..2023-12-31 year | the month before last => 2025-01-01..2025-01-31 month
the weekend before last => 2025-02-15..2025-02-16 week | earlier this week => 2025-02-24..2025-03-02 week
late last month => 2025-02-01..2025-02-28 month | early next month => 2025-04-01..2025-04-30 month
at the end of next month => 2025-04-01..2025-04-30 month | by the end of the year => 2025-01-01..2025-12-31 year
at the beginning of last year => 2024-01-01..2024-12-31 year | later this year => 2025-01-01..2025-12-31 year
later today => 2025-03-01 day | Tuesday of next week => 2025-03-04 day | on Thursday last week => 2025-02-20 day
last week on Thursday => 2025-02-20 day | next week Tuesday => 2025-03-04 day
the Friday before last => 2025-02-21 day | I saw her monday => 2025-02-24 day | on fri we met => 2025-02-28 day
on Sat. => 2025-02-22 day | last Thurs => 2025-02-27 day | next Tues => 2025-03-04 day | this Thu => 2025-03-06 day
Fri 13 June 2025 => 2025-06-13 day | Fri, 13 Jun 2025 => 2025-06-13 day
on Friday the 28th of February => 2025-02-28 day | on Friday the 28th => 2025-02-28 day
on Friday 28 February => 2025-02-28 day | the 15th of last month => 2025-02-15 day
on the 1st of next month => 2025-04-01 day | the 3rd of this month => 2025-03-03 day
It is due on the 28th. => 2025-02-28 day | until the 28th => 2025-02-28 day | by the 28th => 2025-02-28 day
since the 8th => 2025-02-08 day | from 3 to 5 May 2024 => 2024-05-03..2024-05-05 day
from May 3rd to 5th, 2024 => 2024-05-03..2024-05-05 day | from May 3 to May 5, 2024 => 2024-05-03..2024-05-05 day
between the 3rd and the 5th of May 2024 => 2024-05-03..2024-05-05 day | 3-5 May 2024 => 2024-05-03..2024-05-05 day
from 3 May to 7 June 2024 => 2024-05-03..2024-06-07 day | from Monday to Wednesday => 2025-02-24..2025-02-26 day
Easter Monday 2024 => 2024-04-01 day | on Good Friday 2024 => 2024-03-29 day | last Christmas => 2024-12-25 day
at Christmas => 2024-12-25 day | on Christmas Eve => 2024-12-24 day
in the first half of 2024 => 2024-01-01..2024-12-31 year | in the spring => 2025-03-01..2025-05-31 year
in spring 2024 => 2024-03-01..2024-05-31 year | last fall => 2024-09-01..2024-11-30 year
in early spring => 2025-03-01..2025-05-31 year | in the early 2000s => 2000-01-01..2009-12-31 year
in the late 90s => 1990-01-01..1999-12-31 year | in the 1980s => 1980-01-01..1989-12-31 year
this time last year => 2024-01-01..2024-12-31 year | in the last few days => 2025-02-25..2025-03-01 week
in the past two weeks => 2025-02-15..2025-03-01 month | over the last month => 2025-02-01..2025-02-28 month
since march => 2025-03-01..2025-03-31 month | in may => 2024-05-01..2024-05-31 month
last may we met => 2024-05-01..2024-05-31 month | in Jul => 2024-07-01..2024-07-31 month
in sep 2023 => 2023-09-01..2023-09-30 month | on may 3rd => 2025-05-03 day | on 3 may => 2025-05-03 day
Sept. 5 => 2024-09-05 day | tomorrow at 8 => 2025-03-02 day | tonight at 7pm => 2025-03-01T19:00 minute
yesterday at 3 pm => 2025-02-28T15:00 minute | tomorrow morning => 2025-03-02 day
Monday morning at 9:30 => 2025-02-24T09:30 minute | at 15:00 on 3 May 2024 => 2024-05-03 day
back in 2012 => 2012-01-01..2012-12-31 year | around 2015 => 2015-01-01..2015-12-31 year
mid-2024 => 2024-01-01..2024-12-31 year | on 12/25 we met. => 2024-12-25 day | Yesterday I fell. => 2025-02-28 day
a decade ago => 2013-01-01..2017-12-31 year
"""),
)
def test_a_date_is_found_and_read(sentence: str, meant: str) -> None:
    assert read(sentence) == [meant]


@pytest.mark.parametrize(
    "sentence",
    cases("""
Version 1.2.3 is out. | We run 2.10.23 now. | upgraded from 3.11.12 to 3.12.10 | It costs 8.50. | at 8.30
on 10.0.0.1 | IP 10.12.20.24 | ping 10.12.2023.4 | call 555-12-2024 | call +49 30 12-05-20 | We won 3-2. | ratio 16/9
the ticket 2024-07-abc | room 12.4 | I may come. | You may 3 times. | They march 20 miles. | The soldiers march in.
the cat sat on the mat | in the sun | wait a second | the second floor | on the 3rd floor | on the 2nd attempt
my 2nd job | in 3rd grade | on the 1st page | over 2000 people came | in 2000 words | around 1900 calories
a crowd of 2000 | of 1800 euros | a letter from April | a gift from May | I met April at work | June is my friend
a friend of June's | from Jan | by Jan | He works for Sun | every Friday | on Friday nights | on Fridays | each Monday
on Sunday mornings we swim | a Friday | Sunday school | Black Friday sale is silly | for two weeks
in 20 minutes I ran 5 km | I ran it in two hours | 24/7 | 24/7/365 | 9/11 was bad | 1/2 cup | 3/4 of it | 5/8 inch
10 years old | a year | 6 months pregnant | $2000 | room 2019 | Windows 2000 | spring onions | fall down
a winter coat | the summer house | page 12-05 | 2010-12 | 20:15 | 8-5 job | May I ask? | mar the surface | dec
I decided in a second | SKU 12-05-2023-4 | v2024.07.15 | release 2024.1.2 | build 20240715 | the 3rd time
the 8th wonder | on the fifth try | on second thought | the first week | Apr 2% APR | in march formation | a march
jun | I was 3 weeks ahead | GB 2024-25 season | sum 10.12.2013,50 | He turned 30 in good form | 2023 people
a 2019 Honda | weekend trips | day after day | night shift | two nights | The Friday agreement | +1 555 03 2024
03-2024-77 | A4 8.5.x | chapter 8.5.20
"""),
)
def test_versions_prices_names_and_quantities_are_no_dates(sentence: str) -> None:
    assert find_date_phrases(sentence) == []


@pytest.mark.parametrize(
    ("claimed", "meant"),
    cases("""
yesterday => 2023-05-20 day | last night => 2023-05-20 day | last Tuesday => 2023-05-16 day
next Friday => 2023-05-26 day | last weekend => 2023-05-13..2023-05-14 week
two weeks ago => 2023-05-04..2023-05-10 week | a few days ago => 2023-05-14..2023-05-20 week
3 hours ago => 2023-05-21 day | in May => 2023-05-01..2023-05-31 month | in June => 2022-06-01..2022-06-30 month
December 11 => 2022-12-11 day | last summer => 2022-06-01..2022-08-31 year
three years ago => 2020-01-01..2020-12-31 year | since 2016 => 2016-01-01..2016-12-31 year
20 minutes ago => 2023-05-21 day | a fortnight ago => 2023-05-04..2023-05-10 week
in a fortnight => 2023-06-01..2023-06-07 week | a week ago today => 2023-05-14 day
a week from Monday => 2023-05-29 day | Friday next week => 2023-05-26 day | the 3rd of last month => 2023-04-03 day
the 15th of April => 2023-04-15 day | the fifteenth of April => 2023-04-15 day | Sept. 5 2022 => 2022-09-05 day
on Fri => 2023-05-19 day | on Friday => 2023-05-19 day | 5/8/2023 => 2023-05-08 day | 15/7/2023 => 2023-07-15 day
8.5.2023 => 2023-05-08 day | 15-07-2024 => 2024-07-15 day | 2024-07 => 2024-07-01..2024-07-31 month
last winter => 2022-12-01..2023-02-28 year
"""),
)
def test_what_the_page_of_offline_extraction_says_of_dates_is_so(claimed: str, meant: str) -> None:
    for sentence in (claimed, f"We meet them {claimed}.", f"{claimed[0].upper()}{claimed[1:]}, we meet them."):
        assert read(sentence, SUNDAY) == [meant], sentence


@pytest.mark.parametrize("duration", ["I lived there for six years.", "We were there for a few days."])
def test_a_duration_is_no_date(duration: str) -> None:
    assert find_date_phrases(duration) == []


def test_a_day_of_the_month_lies_on_the_side_that_the_verb_says() -> None:
    assert read("on December 11", SUNDAY) == ["2022-12-11 day"]
    assert read("on December 11", SUNDAY, future=True) == ["2023-12-11 day"]
    assert read("on June 3", SUNDAY) == ["2023-06-03 day"]
    assert read("on June 3", SUNDAY, future=False) == ["2022-06-03 day"]
