"""What is a code, and what is a time or a count."""

from __future__ import annotations

import pytest

from memforest_core.domain.codes import codes
from tests.harness.tables import cases


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *cases("""
What is hobby3? => hobby3 | My seat is 25C. => 25c | Order no. 4711-22/b is late => 471122b
Where is order 90817? => 90817 | Call me at +49 170 123-4567! => 491701234567 | Call (555) 010-7788 => 5550107788
the WH-1000XM4 headphones => wh1000xm4 | Gate B12, not b-12 => b12 | 密码是ZT4KPM了 => zt4kpm
"""),
        *(
            (text, "")
            for text in (
                "",
                *cases("""
Who came in 2023 on the 3rd of May? | Since 2023-05-01 at 10:30, or 5.6.2023 | Two of 12 cats are 3 years old
in the 90s at 10pm
"""),
            )
        ),
    ],
)
def test_codes_are_distinguished_from_times_and_counts(text: str, found: str) -> None:
    assert codes(text) == set(found.split())


def test_a_code_is_the_same_however_it_is_written() -> None:
    assert codes("a-17 b") == codes("A17 b") == {"a17"}
    assert codes("0170 1234567") & codes("0170/123 45 67") == {"01701234567"}
