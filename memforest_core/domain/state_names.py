"""Which attributes hold one value at a time, which hold several, and which names mean the same one."""

from __future__ import annotations

_SYNONYMS = {
    "home": "residence",
    "home city": "residence",
    "city of residence": "residence",
    "place of residence": "residence",
    "occupation": "job",
    "profession": "job",
    "marital status": "relationship",
    "relationship status": "relationship",
}
"""What models call the attributes that the extraction prompt and the offline rules name (the values here)."""

SINGLE_VALUED = frozenset(
    {"residence", "hometown", "job", "employer", "age", "birthday", "relationship"}
    | {"weight", "height", "diet", "status"}
    | {"mother", "mom", "mum", "father", "dad", "husband", "wife", "partner", "girlfriend", "boyfriend"}
    | {"fiancé", "fiancée", "boss", "manager", "best friend"}
)
"""A new value of these ends the one before: the states of the extraction rules that exclude each other.

The others that the rules and the prompt produce hold several values at a time: former residence, pet, pet name,
possession, name, preference, allergy, activity, and the relatives one can have many of. So does every attribute that
is not known here, as a state that wrongly counts as over misleads more than one that wrongly counts as current.
"""

_SINGLE_ENDINGS = frozenset(
    {"weight", "height", "age", "pressure", "rate", "cholesterol", "salary", "rent", "budget", "mortgage", "number"}
    | {"record", "time", "score", "goal", "status", "address"}
)
"""Last words of what is measured ("blood pressure", "running record", "phone number"): one figure at a time."""


def canonical(attribute: str) -> str:
    """The name that chains are kept under: casefolded, synonyms made one."""
    name = " ".join(attribute.casefold().split())
    return _SYNONYMS.get(name, name.replace("favourite", "favorite"))


def spellings(attribute: str) -> frozenset[str]:
    """All stored names of an attribute."""
    name = canonical(attribute)
    same = {synonym for synonym, meant in _SYNONYMS.items() if meant == name}
    return frozenset({name, " ".join(attribute.casefold().split())} | same)


def single_valued(attribute: str) -> bool:
    """Whether a new value of the attribute ends the one before."""
    name = canonical(attribute)
    return name in SINGLE_VALUED or name.startswith("favorite ") or name.rpartition(" ")[2] in _SINGLE_ENDINGS
