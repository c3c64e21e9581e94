"""The few life domains that words name; anything else stays without a scene."""

from __future__ import annotations

import re
from collections import Counter

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
