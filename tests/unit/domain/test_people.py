"""People and their names: speakers under all names, and the person that a name, a nickname or a mention means."""

from __future__ import annotations

import pytest

from memforest_core.domain.people import People, called, found_in, with_names, without_ids
from tests.harness.tables import cases

SPEAKERS = [
    ("111", "gruzilkin"),
    ("111", "gruz"),
    ("222", "Florent"),
    ("333", "Caroline"),
    ("444", "Mark"),
    ("555", "Art"),
    ("666", "Alex"),
    ("777", "Alex"),
    ("888", "Jean-Luc Picard"),
    ("999", "✨mira_loves_rain✨"),
    ("1000", "montgomery"),
    ("1001", "montserrat"),
    ("u1", "Evi"),
]
PEOPLE = People("u1", SPEAKERS, "Eva")


@pytest.mark.parametrize(
    ("name", "speaker"),
    [
        *cases("""
gruzilkin => 111 | gruz => 111 | Gruzilkin => 111 | GRUZ's => 111 | 111 => 111 | <@111> => 111 | <@!111> => 111
<@404> => nobody | @gruz => 111 | @flor => 222 | flor => 222 | flo => nobody | gruzil => 111 | Gruzil => 111
Carol => nobody | carol => 333 | mont => nobody | montg => 1000 | alex => nobody | Alex => nobody | 666 => 666
Mark => 444 | Eva => u1 | evi => u1 | u1 => u1 | Jean-Luc => 888 | Dr. Florent => 222 | Paris => nobody
gruzilkin the great => nobody
"""),
        ("", "nobody"),
        ("@", "nobody"),
    ],
)
def test_whom_a_name_means(name: str, speaker: str) -> None:
    """An id, a mention, a name of any time and case, a beginning of four letters that one speaker has."""
    person = PEOPLE.who(name)

    assert (person.id if person is not None else "nobody") == speaker


@pytest.mark.parametrize(
    ("text", "shown"),
    cases("""
gruzilkin is a great cook. => Gruzilkin is a great cook. | I saw gruz at the market. => I saw Gruz at the market.
<@111> is a great cook. => Gruzilkin is a great cook. | <@!111>, come here. => Gruzilkin, come here.
<@404> is here. => <@404> is here. | @flor lent me a rope. => Florent lent me a rope.
mail me at me@florent.example => mail me at me@florent.example
I met caroline and florent. => I met Caroline and Florent. | Florent moved to Lyon. => Florent moved to Lyon.
Gruz moved to Lyon. => Gruz moved to Lyon.
I will mark the route in may, it is an art. => I will mark the route in may, it is an art.
the mark on the wall => the mark on the wall | Mark moved to Lyon. => Mark moved to Lyon.
alex is here. => alex is here. | <@666> is here. => Alex is here. | gruzilkin's dog is old. => Gruzilkin's dog is old.
I gave the rope to gruz. => I gave the rope to Gruz. | @111 and @gruzil are one. => Gruzilkin and Gruzilkin are one.
the gruz of the year => the gruz of the year | carol told me so. => Caroline told me so.
we sing a carol every year. => we sing a carol every year. | I paid 111 dollars. => I paid 111 dollars.
<@999> is late. => Mira loves rain is late. | evi likes jazz. => Evi likes jazz.
#gruz and /gruz are no people => #gruz and /gruz are no people
gruz, florent and caroline went up => Gruz, Florent and Caroline went up
jean-luc picard is a captain => Jean-Luc Picard is a captain
"""),
)
def test_mentions_and_nicknames_of_a_text_become_names(text: str, shown: str) -> None:
    assert with_names(text, PEOPLE) == shown


def test_a_reader_gets_names_for_ids_alone() -> None:
    assert (
        without_ids("<@111> said that gruz cooks for <@404>.", PEOPLE) == "Gruzilkin said that gruz cooks for <@404>."
    )


def test_a_name_with_a_capital_is_plain_and_knows_its_place() -> None:
    first, second = found_in("Florent helped gruz.", PEOPLE)

    assert (first.person.id, first.plain, first.start, first.end) == ("222", True, 0, 7)
    assert (second.person.id, second.plain, second.start, second.end) == ("111", False, 15, 19)


def test_the_newest_name_counts_and_an_id_is_no_name() -> None:
    people = People("u1", [("111", "111"), ("111", "gruzilkin"), ("111", "gruz")])
    person = people.by_id("111")

    assert person is not None
    assert (person.name, person.names) == ("gruzilkin", ("gruzilkin", "gruz", "111"))
    assert person.keys == {"111", "gruz", "gruzilkin"}


def test_a_name_without_an_id_belongs_to_the_one_speaker_who_has_it() -> None:
    people = People(
        "club", [("gruz", "gruz"), ("111", "gruz"), ("111", "gruzilkin"), ("Anna", "Anna"), ("anna", "anna")]
    )

    assert people.who("gruz") is people.by_id("111") is people.by_id("gruz")
    assert people.by_id("Anna") is people.by_id("anna") is people.who("ANNA")


def test_a_name_without_an_id_is_the_owners_first_and_nobodys_where_two_speakers_have_it() -> None:
    people = People("u1", [("Eva", "Eva"), ("u1", "Eva"), ("1", "Sam"), ("2", "Sam"), ("Sam", "Sam")])

    assert people.who("eva") is people.owner
    assert people.who("sam") is None
    assert people.shared("Sam") and not people.shared("Eva")
    sam = people.by_id("Sam")
    assert sam is not None and sam.ids == ("Sam",) and called("sam", sam)


def test_a_name_that_two_have_is_no_key_of_either_but_for_the_owner() -> None:
    people = People("u1", [("u1", "Alex"), ("2", "Alex")])
    other = people.by_id("2")

    assert other is not None and other.keys == {"2"}
    assert people.owner.keys == {"u1", "alex"}
    assert people.by_key("alex") is None


def test_an_owner_who_never_spoke_has_the_id_for_a_name() -> None:
    people = People("climbing-club", [])

    assert (people.owner.name, people.owner.key, people.owner.keys) == (
        "climbing-club",
        "climbing club",
        {"climbing club"},
    )
    assert people.everybody == (people.owner,)


@pytest.mark.parametrize("owner", ["42", "…", "字"])
def test_every_id_has_a_key(owner: str) -> None:
    assert People(owner, []).owner.key


def test_thousands_of_speakers_are_looked_up_at_once() -> None:
    people = People("club", [(str(number), f"member{number}") for number in range(20_000)])

    assert people.who("member777") is people.by_id("777")
    assert people.who("memb") is None
