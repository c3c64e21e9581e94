"""States that people ask about, in the words they ask with and in those they tell them with (English)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from memforest_core.domain.text import terms

_OCCUPATION_WORDS = """
    nurse teacher engineer developer programmer doctor lawyer designer accountant chef cook writer artist
    musician scientist researcher student manager consultant architect dentist pharmacist electrician plumber
    carpenter mechanic pilot driver journalist editor photographer librarian professor therapist psychologist
    veterinarian vet barista waiter waitress cashier analyst freelancer firefighter paramedic physician surgeon
    realtor translator actor actress biologist chemist physicist economist entrepreneur counselor technician
    administrator salesperson baker teller porter guide archivist cataloguer clerk farmer gardener tutor coach
    intern trainee tailor butcher hairdresser caretaker
"""
OCCUPATIONS = tuple(_OCCUPATION_WORDS.split())
"""Words for what somebody works as."""
_PET_WORDS = """
    dog puppy cat kitten tomcat hamster parrot rabbit bunny turtle tortoise goldfish fish snake lizard horse
    pony bird ferret labrador beagle poodle corgi husky dachshund terrier spaniel hen beetle canary budgie
    hedgehog
"""
PETS = (*_PET_WORDS.split(), "guinea pig", "golden retriever")
"""Words for animals that people keep."""
RELATIVES = (
    "mom|mum|mother|dad|father|sister|brother|wife|husband|partner|girlfriend|boyfriend|son"
    "|daughter|fiancée?|grandma|grandmother|grandpa|grandfather|aunt|uncle|cousin|nephew|niece"
    "|roommate|flatmate|boss|manager|colleague|coworker|neighbou?r|best friend|friend|parents"
    "|kids|children|in-laws"
)
"""Words for people whom others are said to have, as alternatives of a regular expression."""


class Attribute(StrEnum):
    """A state that changes over a life; values are names of attributes as facts carry them."""

    RESIDENCE = "residence"
    JOB = "job"
    PET = "pet"
    WEIGHT = "weight"
    PROJECT = "status"


@dataclass(frozen=True, slots=True)
class Wording:
    """Stems of one attribute."""

    asked: frozenset[str]
    """A question with one of them may ask for the attribute."""
    told: frozenset[str]
    """A statement with one of them may tell it."""


def _stems(words: str) -> frozenset[str]:
    return frozenset(terms(words))


WORDINGS = {
    Attribute.RESIDENCE: Wording(
        _stems("live living lived move moved reside residence city town home"),
        _stems("live lived move moved flat apartment house room rent settled relocated"),
    ),
    Attribute.JOB: Wording(
        _stems("job work worked profession career occupation employed position role post"),
        _stems(
            "job work hired quit resigned promoted post train career employed intern fired " + " ".join(OCCUPATIONS)
        ),
    ),
    Attribute.PET: Wording(
        _stems("pet animal " + " ".join(PETS)), _stems("pet animal adopted shelter " + " ".join(PETS))
    ),
    Attribute.WEIGHT: Wording(
        _stems("weigh weight heavy kilos pounds"), _stems("weigh weight kilos kg pounds lbs scale")
    ),
    Attribute.PROJECT: Wording(
        _stems("project status progress state"),
        _stems("project plan sketch draft prototype beta launch release submitted finished version"),
    ),
}


_LIVING = _stems("live living lived")


def asked_attributes(question: Collection[str]) -> tuple[Attribute, ...]:
    """The attributes that a question's terms ask for; empty for most questions.

    To live is said of much: beside another attribute it asks for no residence ("which dog lived with her?").
    """
    wanted = frozenset(question)
    asked = tuple(attribute for attribute, wording in WORDINGS.items() if wanted & wording.asked)
    if len(asked) > 1 and wanted & WORDINGS[Attribute.RESIDENCE].asked <= _LIVING:
        return tuple(attribute for attribute in asked if attribute is not Attribute.RESIDENCE)
    return asked


def telling_terms(attributes: Collection[Attribute]) -> frozenset[str]:
    """The stems that statements of these attributes are likely to hold."""
    return frozenset(term for attribute in attributes for term in WORDINGS[attribute].told)
