"""What of a turn somebody else wrote."""

from __future__ import annotations

import pytest

from memforest_core.domain.pasted import Pasted, body_of, pasted

MAIL = "From: Henrike Aalders <orders@seed.example>\nTo: Oda\nSubject: Your order\n\nWe have moved to Bergen."


def parts(text: str) -> list[tuple[str, str]]:
    return [(text[piece.start : piece.end], piece.author) for piece in pasted(text)]


def test_a_mail_goes_from_its_head_to_the_end_of_the_turn() -> None:
    assert parts(f"Look at this.\n\n{MAIL}") == [(MAIL, "Henrike Aalders")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I moved to Oslo.",
        "From: Berlin\nTo: Paris\nDate: 3 May\nI have booked it.",
        "From: now on I run.",
        "2 > 1, and I live in Oslo.\n>_<",
        "Subject: maths\nI like it.",
    ],
)
def test_what_only_looks_like_a_mail_is_the_speakers_own(text: str) -> None:
    assert parts(text) == []


def test_lines_quoted_below_who_wrote_them_are_theirs_and_the_rest_is_not() -> None:
    quoted = "> I moved to Rome.\n> I sold the car.\n"
    text = f"On Mon, 3 May 2024 at 10:12, Anna Berg <anna@x.example> wrote:\n{quoted}I am happy for her."
    assert parts(text)[1] == (quoted, "Anna Berg")
    assert text[pasted(text)[-1].end :] == "I am happy for her."


def test_quoted_lines_alone_are_nobodys() -> None:
    assert parts("> I live in Rome\nNo, I live in Oslo.") == [("> I live in Rome\n", "")]


def test_unquoted_text_below_the_name_of_its_writer_is_the_writers() -> None:
    text = "On 3 May 2024 at 10:12, Anna Berg wrote:\nI moved to Rome."
    assert parts(text) == [(text, "Anna Berg")]


@pytest.mark.parametrize(
    "marker", ["---------- Forwarded message ---------", "Begin forwarded message:", "-----Original Message-----"]
)
def test_a_forwarded_mail_is_of_whom_its_head_names(marker: str) -> None:
    assert parts(f"See below.\n{marker}\n{MAIL}") == [(f"{marker}\n{MAIL}", "Henrike Aalders")]
    assert parts(f"{marker}\nI moved to Rome.") == [(f"{marker}\nI moved to Rome.", "")]


def test_a_bare_address_is_no_name() -> None:
    assert parts("From: anna@x.example\nSubject: Hi\nI moved.")[0][1] == ""


def test_a_piece_within_a_part_of_the_turn() -> None:
    piece = Pasted(10, 50, "Anna")
    assert piece.within(0, 30) == Pasted(10, 30, "Anna")
    assert piece.within(20, 90) == Pasted(0, 30, "Anna")
    assert piece.within(50, 60) is None


def test_the_body_has_no_head_and_no_marks() -> None:
    assert body_of(MAIL).strip() == "We have moved to Bergen."
    assert body_of("> I moved to Rome.\n>> Where?") == "I moved to Rome.\nWhere?"
