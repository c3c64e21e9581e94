"""Which attributes hold one value at a time, which hold several, and which names mean the same one."""

from __future__ import annotations

_NAMES = {
    "residence": "home, home city, city of residence, place of residence, city, lives in, living in, residency",
    "job": "occupation, profession, job title, career, works as, employment",
    "employer": "company, workplace, works at, works for, place of work",
    "relationship": "marital status, relationship status, civil status",
    "pet": "pets, animal, animals, has pet",
    "car": "cars, vehicle, automobile, drives, drive",
    "phone": "mobile, mobile phone, cell phone, cellphone, smartphone",
    "weight": "body weight, weighs",
    "height": "body height",
    "birthday": "date of birth, birth date, birthdate, born on",
    "boss": "supervisor, line manager",
    "mother": "mom, mum",
    "father": "dad",
    "instrument": "musical instrument, plays instrument, instrument played",
    "language learning": "learning language, language learned, learns language",
    "medication dose": "dose, dosage, medicine dose, medication dosage",
    "medication": "medicine, meds, prescription",
    "commute": "way to work, commutes by, mode of commute",
    "hair color": "hair dye, color of hair",
    "hairstyle": "haircut, hair style",
    "gym": "fitness studio, fitness center, fitness club",
    "status": "project status, progress",
    "preference": "preferences, likes",
    "allergy": "allergies, allergic to",
    "hobby": "hobbies, pastime",
}
"""By the names that the extraction prompt, the offline rules and questions use, others that models give the same
attribute. A job is what somebody works as and an employer for whom: as one they would end each other."""
_SYNONYMS = {name: known for known, names in _NAMES.items() for name in names.split(", ")}
_SPELLED = {"favourite": "favorite", "colour": "color", "centre": "center"}
_PARTS = str.maketrans("_-/", "   ")
_NOW = "current "
"""What some models put before a name; every state is one that was valid at its timestamp."""

SINGLE_VALUED = frozenset(
    {"residence", "hometown", "job", "employer", "age", "birthday", "relationship"}
    | {"weight", "height", "diet", "status"}
    | {"mother", "mom", "mum", "father", "dad", "husband", "wife", "partner", "girlfriend", "boyfriend"}
    | {"fiancé", "fiancée", "boss", "manager", "best friend", "commute", "hairstyle", "savings"}
)
"""A new value of these ends the one before: the states of the extraction rules that exclude each other.

The others that the rules and the prompt produce hold several values at a time: former residence, pet, pet name,
possession, name, preference, allergy, activity, and the relatives one can have many of. So does every attribute that
is not known here, as a state that wrongly counts as over misleads more than one that wrongly counts as current.
"""

_SINGLE_ENDINGS = frozenset(
    {"weight", "height", "age", "pressure", "rate", "cholesterol", "salary", "rent", "budget", "mortgage", "number"}
    | {"record", "time", "score", "goal", "status", "address", "dose", "rating", "color"}
)
"""Last words of what is measured ("blood pressure", "running record", "phone number"): one figure at a time."""


def canonical(attribute: str) -> str:
    """The name that chains are stored under: casefolded, written one way, synonyms made one. Other names stay."""
    name = " ".join(attribute.casefold().translate(_PARTS).split())
    for other, spelling in _SPELLED.items():
        name = name.replace(other, spelling)
    name = name.removeprefix(_NOW)
    return _SYNONYMS.get(name, name)


def spellings(attribute: str) -> frozenset[str]:
    """All names under which an attribute may be stored: as it is given, and every way to write its synonyms.

    Names are stored as a model gave them and made one when they are read, so that another table needs no migration.
    """
    name = canonical(attribute)
    same = {name} | {synonym for synonym, meant in _SYNONYMS.items() if meant == name}
    british = {one.replace("favorite", "favourite").replace("color", "colour") for one in same}
    now = {_NOW + one for one in same | british}
    written = {one.replace(" ", mark) for one in same | british | now for mark in " _-"}
    return frozenset(written | {" ".join(attribute.casefold().split())})


def single_valued(attribute: str) -> bool:
    """Whether a new value of the attribute ends the one before."""
    name = canonical(attribute)
    return name in SINGLE_VALUED or name.startswith("favorite ") or name.rpartition(" ")[2] in _SINGLE_ENDINGS
