"""Whether the English rules can read a text (else it is stored as it was said), and its life domain by its words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.text import STOP_WORDS, sentences

_LEXICON = {
    "home/moving": """moved moving relocated relocating apartment house condo landlord lease rent
        mortgage neighborhood neighbourhood roommate housewarming renovation kitchen""",
    "work/job": """job work works working worked office boss manager coworker coworkers colleague
        colleagues promotion promoted hired company startup client clients interview career salary
        resigned project deadline meeting employer shift""",
    "pets/dog": "dog dogs puppy puppies leash kennel retriever labrador poodle terrier beagle",
    "pets": "cat cats kitten kittens pet pets vet hamster parrot rabbit goldfish aquarium",
    "health/fitness": """gym workout workouts run running ran jog jogging marathon yoga pilates
        weigh weighs weight doctor dentist therapy therapist allergic allergy asthma surgery hospital
        medication sleep diet injury injured cardio lifting swimming blood""",
    "family": """mom mum mother dad father sister brother wife husband son daughter kids kid
        children baby grandma grandmother grandpa grandfather aunt uncle cousin nephew niece wedding married
        engaged anniversary divorced fiance fiancee parents family""",
    "travel": """trip travel traveling travelling traveled travelled flight flights flew hotel
        airport vacation holiday passport visa itinerary beach cruise backpacking camping airbnb hostel""",
    "food": """eat eating ate cook cooking cooked recipe recipes restaurant dinner lunch breakfast
        vegetarian vegan sushi pizza pasta coffee tea cake bake baking baked dessert meal cuisine
        chocolate""",
    "hobby": """hobby hobbies guitar piano violin painting paint pottery drawing hiking hike
        photography knitting gardening chess game games gaming book books novel reading movie movies
        concert band climbing surfing cycling dancing tennis soccer football basketball""",
    "study": """study studying studied university college school degree exam exams class classes
        course courses professor thesis homework semester graduate graduated scholarship phd
        masters learning tutor""",
    "money": """budget savings save saving invest investing investment loan debt tax taxes bank bill
        bills expensive mortgage stocks insurance paid dollars""",
}
_OF_WORD = {word: label for label, words in _LEXICON.items() for word in words.split()}
_OF_ATTRIBUTE = {
    "residence": "home/moving",
    "former residence": "home/moving",
    "job": "work/job",
    "status": "work/job",
    "weight": "health/fitness",
    "allergy": "health/fitness",
    "diet": "food",
    "relationship": "family",
}
_WORDS = re.compile(r"[a-z]+")


def scene_of(sentence: str, attribute: str) -> str:
    """A label ``domain`` or ``domain/detail``, or empty when no word decides."""
    if attribute in _OF_ATTRIBUTE:
        return _OF_ATTRIBUTE[attribute]
    votes = Counter(_OF_WORD[word] for word in _WORDS.findall(sentence.lower()) if word in _OF_WORD)
    best = max(_LEXICON, key=votes.__getitem__)  # the first one of several
    return best if votes[best] else ""


_WORD = re.compile(r"[^\W\d_]+")
_FOREIGN_WORDS = """
    que el la los las y una uno por para con mi muy es en del se soy tengo vivo gusta pero je le
    les des est une dans avec pour suis mon ma mes et du au nous vous und der das ich ist nicht
    ein eine mit mein meine wir bin habe auf zu em não uma meu minha eu tenho il di che sono ho
    per mia mio gli het een ik op mijn niet och jag att det som på jeg og ikke nie jest się
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())
_SHARED_WORDS = "me a no do as so in was an am on he her"
_ENGLISH = STOP_WORDS - frozenset(_SHARED_WORDS.split())
_SAMPLE_CHARS = 400
_MIN_LATIN = 0.7


def is_english(text: str) -> bool:
    """Whether the rules can read a text, judged by its letters and function words."""
    sample = text[:_SAMPLE_CHARS]
    letters = [char for char in sample if char.isalpha()]
    if sum(char < "\u0250" for char in letters) < _MIN_LATIN * len(letters):
        return False
    words = [word.lower() for word in _WORD.findall(sample)]
    foreign = sum(word in _FOREIGN for word in words)
    own = foreign < 2 or foreign <= sum(word in _ENGLISH for word in words)
    return own and language_of(sample) == ENGLISH


def packed(text: str, limit: int) -> Iterator[str]:
    """Consecutive sentences joined into verbatim parts of about ``limit`` characters."""
    start = end = -1
    at = 0
    for sentence in sentences(text):
        found = text.find(sentence, at)
        if found < 0:
            yield sentence
            continue
        at = found + len(sentence)
        if start >= 0 and at - start > limit:
            yield text[start:end]
            start = -1
        if start < 0:
            start = found
        end = at
    if start >= 0:
        yield text[start:end]
