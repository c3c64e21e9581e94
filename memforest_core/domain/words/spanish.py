"""The words of Spanish."""

from __future__ import annotations

import re

from memforest_core.domain.periods import YEAR
from memforest_core.domain.words.records import (
    Attribute,
    FollowUpWords,
    NowWords,
    OrderWords,
    SeriesWords,
    Wording,
    WordList,
    Words,
)

_PETS = """
    perro perra cachorro gato gata gatito hámster conejo loro periquito canario tortuga pez serpiente lagarto
    caballo poni pájaro hurón cobaya erizo gallina ratón caniche labrador
"""
_PET = "|".join(_PETS.split())
_OCCUPATIONS = """
    maestro maestra profesor profesora médico médica enfermero enfermera ingeniero ingeniera programador
    programadora abogado abogada cocinero cocinera camarero camarera vendedor vendedora dependiente carpintero
    mecánico electricista fontanero piloto conductor conductora periodista editor fotógrafo bibliotecario
    bibliotecaria terapeuta psicóloga psicólogo veterinario veterinaria cajero cajera peluquero peluquera panadero
    carnicero jardinero agricultor sastre conserje traductor traductora estudiante becario becaria aprendiz
    consultor arquitecto arquitecta contable secretario secretaria
"""
_RELATIVES = (
    "mamá|madre|papá|padre|padres|hermanas?|hermanos?|mujer|esposa|marido|esposo|pareja|novi[oa]|hij[oa]s?|abuel[oa]s?"
    "|t[ií][oa]s?|prim[oa]s?|sobrin[oa]s?|compañer[oa](?:\\s+de\\s+piso)?|jef[ea]|colega|vecin[oa]s?|amig[oa]s?"
)
_THINGS = "coche|carro|auto|bici|bicicleta|moto|móvil|celular|guitarra|piano|casa|piso"
_MONTHS = "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
_TIMES = (
    rf"{_MONTHS}|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
    rf"|primavera|verano|otoño|invierno|navidad(?:es)?|{YEAR}"
)
_PASSED = rf"semanas?|mes(?:es)?|años?|noche|vez|veces|días?|minuto|hora|{_TIMES}"
_STILL = r"\b(?:todavía|aún|sigo|sigue|sigues|seguimos|siguen)\b"
_NOW = (
    r"\b(?:ahora|hoy(?:\s+en\s+día)?|actual(?:es|mente)?|en\s+este\s+momento|por\s+ahora|a\s+día\s+de\s+hoy)\b"
    rf"|{_STILL}"
)
_OWNED = "tengo|tiene|tienen|tenemos"

_ORDER = OrderWords(
    sides=(
        re.compile(
            r"\b(?P<word>antes\s+del?|después\s+del?|despues\s+del?|tras)\s+(?:que\s+)?(?P<rest>[^?¿.!;]*)", re.I
        ),
    ),
    after=("desp", "tras"),
    between=re.compile(r"\bentre\s+(?P<one>[^?.!;]+?)\s+y\s+(?P<other>[^?.!;,]+)", re.I),
    duration=re.compile(
        r"\bcu[aá]nt[oa]s?\s+(?:tiempo|horas|días|semanas|meses|años)\b(?!\s+hace\s+que\b)(?P<rest>[^?.!;]*)", re.I
    ),
    before_words=re.compile(
        r"\b(?:antes(?!\s+(?:de|que)\b)|anterior(?:es|mente)?|previ(?:o|a|os|as|amente)|antigu[oa](?=\s+(?:trabajo|empleo|piso|casa|jef[ea]))"
        r"|sol[ií]a\w*|ya\s+no|en\s+el\s+pasado|ex-?(?=novi|marid|mujer|jef|espos))",
        re.I,
    ),
    after_words=re.compile(
        r"\b(?:despu[eé]s(?!\s+de)|luego|posteriormente|más\s+(?:tarde|adelante)|a\s+continuación)\b", re.I
    ),
    first_words=re.compile(
        r"\b(?:primer(?:o|a|os|as)?(?!\s+(?:vista|clase|ministr\w+|auxilios|nombre)\b)|al\s+(?:principio|comienzo|inicio)"
        r"|inicial(?:mente)?|original(?:mente)?|en\s+un\s+principio)\b",
        re.I,
    ),
    latest_words=re.compile(rf"\b(?:últim[oa]s?(?!\s+(?:{_PASSED})\b)|más\s+recientes?)\b|{_NOW}", re.I),
    habit=re.compile(
        r"(?:(?:la|el|los|las|mi|su|tu)\s+)?(?:comer|cenar|desayunar|dormir|acostar\w+|comida|cena|desayuno|almuerzo|trabajo|trabajar"
        r"|escuela|colegio|clase|medianoche|mediodía|todo|nada)\W*",
        re.I,
    ),
    dated=re.compile(rf"(?:(?:el|la|las)\s+)?(?:{_TIMES})\W*", re.I),
    back=re.compile(r"(?:eso|esto|ello|entonces|allí)", re.I),
    clause_end=re.compile(r"[?¿.!;,]|\s+(?:y|o|pero)\s+(?:antes|después|luego)\b", re.I),
    inverted=re.compile(r"\s+(?:dónde|qué|quién|cuál|cómo|cuándo|por\s+qué)\b", re.I),
    not_time_between=re.compile(
        r"\b(?:diferencia\w*|relaci\w+|eleg\w+|elig\w+|decid\w+|decisión|distancia|conversaci\w+|partido|pelea)\b[^?.!,;]*$",
        re.I,
    ),
    ends=re.compile(r"\bdesde\s+(?P<ends>.+)", re.I),
    pair=re.compile(r"^(?P<one>.+?)\s+(?:y|hasta)\s+(?P<other>.+)$", re.I),
    auxiliary=re.compile(r"\s*(?:(?:ha|he|han|pasó|pasaron|duró|hay|hubo|llev[oa]\w*)\b\s*)*", re.I),
)

_NOW_WORDS = NowWords(
    now=re.compile(_NOW, re.I),
    still=re.compile(_STILL, re.I),
    not_now=re.compile(
        r"\b(?:fue|fui|fueron|era|eran|estaba\w*|estuv\w+|había\w*|tenía\w*|tuv\w+|viv(?:ía\w*|í|ió|ieron)|trabaj(?:aba\w*|é|ó|aron)"
        r"|será\w*|irá\w*|vivir[éá]\w*|trabajar[éá]\w*|va\s+a|voy\s+a|van\s+a|plane\w+|hasta\s+ahora"
        r"|(?:he|ha|hemos|han)\s+\w+(?:ado|ido|to|cho))\b",
        re.I,
    ),
    plain=tuple(
        (attribute, re.compile(pattern, re.I))
        for attribute, pattern in (
            (
                "residence",
                r"\b(?:d[oó]nde|en\s+qu[eé]\s+(?:ciudad|país|pueblo|barrio|calle))\s+(?:viv(?:o|e|en|imos)|resid(?:o|e|en))\b"
                r"|\bd[oó]nde\s+est(?:oy|á|án)\s+viviendo\b",
            ),
            (
                "job",
                r"\b(?:d[oó]nde|de\s+qu[eé]|en\s+qu[eé](?:\s+empresa)?|para\s+(?:qui[eé]n|qu[eé]\s+empresa))\s+trabaj(?:o|a|an|amos)\b"
                r"|\ba\s+qu[eé]\s+(?:me\s+dedico|se\s+dedican?|nos\s+dedicamos)\b",
            ),
            (
                "relationship",
                r"\b(?:est(?:oy|á|án)|es|soy)\b.{0,60}?\b(?:casad|solter|divorciad|separad|prometid)[oa]s?\b"
                r"|\bcon\s+qui[eé]n\s+(?:sal(?:go|e)|est(?:oy|á))\b",
            ),
            (
                "pet",
                rf"\b(?:qu[eé]|cu[aá]nt[oa]s)\s+(?:mascotas?|animal(?:es)?|(?:{_PET})s?)\s+(?:{_OWNED})\b"
                rf"|\b(?:{_OWNED})\b.{{0,60}}?\b(?:una?|alg[uú]n(?:a)?)\s+(?:mascota|animal|{_PET})\b",
            ),
            (
                "possession",
                rf"\b(?:qu[eé]|cu[aá]l(?:es)?)\s+(?:{_THINGS})s?\s+(?:{_OWNED}|conduc\w+|uso|usa|llevo|lleva)\b"
                rf"|\b(?:{_OWNED})\b.{{0,60}}?\b(?:una?|alg[uú]n(?:a)?)\s+(?:{_THINGS})\b",
            ),
            ("weight", r"\bcu[aá]nto\s+(?:peso|pesa|pesan|pesamos)\b"),
        )
    ),
    what_is=re.compile(r"\bcu[aá]l(?:es)?\s+(?:es|son)\s+(?:mis?|nuestr[oa]s?|el|la)\s+(?P<what>[^?.!;]{1,60})", re.I),
    named=tuple(
        (attribute, re.compile(rf"\b(?:{words})\b", re.I))
        for attribute, words in (
            ("residence", r"viv(?:o|e|en|imos|ía|iendo|ido|í|ió)|resid\w+|residencia|ciudad|dirección|domicilio|hogar"),
            ("job", r"trabaj\w*|empleo|empleador|profesión|carrera|ocupación|oficio|puesto|empresa|dedic\w+"),
            ("employer", r"trabaj(?:o|a|aba)|empresa|empleador"),
            (
                "relationship",
                r"relación|casad[oa]|prometid[oa]|solter[oa]|divorciad[oa]|pareja|novi[oa]|marido|mujer|espos[oa]",
            ),
            ("pet", rf"mascotas?|animal(?:es)?|(?:{_PET})s?"),
            ("possession", rf"(?:{_THINGS})s?|conduc\w+"),
            ("weight", r"pes[oa]|pesan"),
            ("status", r"proyecto|estado|progreso"),
            ("diet", r"dieta|vegetarian[oa]|vegan[oa]"),
            ("rent", r"alquiler"),
        )
    ),
)

_SERIES = SeriesWords(
    every=re.compile(
        r"\bcuánt[oa]s\b(?!\s+(?:años|meses|semanas|días|horas|veces\s+(?:a|al|por)\b))|\b(?:qué|cuáles)\s+(?:\w+\s+)?\w+s\s+(?:ha|han|he|hemos|tiene|tuvo|tenía|son)\b"
        r"|\bambos\b|\bambas\b|\btod[oa]s\b|\bqué\s+más\b|\bquién\s+más\b|\bcuáles\b",
        re.I,
    ),
    often=re.compile(r"\b(?:cada\s+cuánto|con\s+qué\s+frecuencia|cuántas\s+veces\s+(?:a|al|por))\b", re.I),
    frequency=re.compile(
        r"\b(?:(?:una|dos|tres|cuatro|cinco)\s+(?:vez|veces|días|tardes)\s+(?:a|al|por)\s+\w+|todos\s+los\s+\w+|todas\s+las\s+\w+"
        r"|cada\s+(?:día|semana|mes|año|mañana|noche|tarde|lunes|martes|miércoles|jueves|viernes|sábado|domingo)|a\s+diario|diariamente)\b",
        re.I,
    ),
    happening="pasar pasó pasaba ocurrió ocurrir hacer hizo hice suceder sucedió",
    i="yo",
    my="mi",
    they=re.compile(r"\b(?:él|ella)\b", re.I),
    theirs=re.compile(r"\bsus?\b", re.I),
)

_FOLLOW_UP = FollowUpWords(
    backward=frozenset(
        {"él", "ella", "ellos", "ellas", "le", "les", "su", "sus", "suyo", "suya", "suyos", "suyas", "eso", "ello"}
        | {"aquel", "aquella", "aquello", "aquellos", "aquellas", "ése", "ésa", "dicho", "dicha"}
    ),
    last=frozenset(
        {"esto", "ese", "esa", "esos", "esas", "ahí", "allí", "allá", "entonces", "también", "otro", "otra", "más"}
    ),
    openings=("y", "pero", "o", "entonces", "además", "también", "qué tal", "qué más", "quién más", "por qué no"),
    elliptic_words=2,
    inside=re.compile(
        r"\b(?:la|lo|los|las)\s+(?!que\b)\w+(?:é|í|ó|aste|iste|amos|imos|aron|ieron|aba|ía)\b"
        r"|\bes[ea]s?\s+(?!semana|mes|año|día|noche|mañana|tarde|verano|invierno|otoño|primavera)\w",
        re.I,
    ),
)

_I = """
    yo me mí mi mis conmigo mío mía míos mías soy estoy tengo vivo hago voy puedo quiero digo he fui tuve hice estuve
    dije puse vine quise pude pago conduzco conozco dejo
"""
WORDS = Words(
    language="spanish",
    spaced=True,
    first_person=WordList(
        frozenset(_I.split()),
        # The preterite and the perfect: "compré", "he comprado". The words that are listed end alike and are no verbs.
        re.compile(
            r"\b(?!(?:aquí|allí|ahí|así|casi|porqué|café|bebé|papá|josé|andré|noé|qué|cómo|también|colibrí|maniquí|pedigrí)\b)"
            r"\w{2,}[éí]\b|\bhe\s+\w+(?:ado|ido|sto|cho|rto|elto)\b",
            re.I,
        ),
    ),
    ours=frozenset({"mi", "mis", "nuestro", "nuestra", "nuestros", "nuestras"}),
    relatives=_RELATIVES,
    order=_ORDER,
    now=_NOW_WORDS,
    series=_SERIES,
    follow_up=_FOLLOW_UP,
    wordings={
        Attribute.RESIDENCE: Wording(
            "vivo vive vivir vivía viví vivió viviendo vivido mudo mudé mudó mudado mudarse residencia ciudad hogar",
            "vivo vive vivir vivía viví mudo mudé mudó mudado mudanza mudarme piso casa apartamento habitación cuarto "
            "alquiler alquilo instalado instalada",
        ),
        Attribute.JOB: Wording(
            "trabajo trabaja trabajar trabajaba trabajé trabajó empleo profesión carrera ocupación oficio puesto "
            "dedico dedica",
            "trabajo trabaja trabajar contratado contrataron contrató renuncié renunció dimití despedido despidieron "
            f"ascendido ascendieron puesto empleo empresa oficina prácticas jefe jefa {_OCCUPATIONS}",
        ),
        Attribute.PET: Wording(f"mascota animal {_PETS}", f"mascota animal adopté adoptó adoptado protectora {_PETS}"),
        Attribute.WEIGHT: Wording(
            "peso pesa pesar pesaba pesado kilos", "peso pesa kilos kg báscula adelgazado engordado adelgacé engordé"
        ),
        Attribute.PROJECT: Wording(
            "proyecto estado progreso avance",
            "proyecto plan boceto borrador prototipo beta lanzamiento lanzado entregado terminado versión",
        ),
    },
    living="vivo vive vivir vivía viví vivió viviendo vivido",
    relative_ahead=re.compile(rf"\b(?:{_RELATIVES})\s+de\s+$", re.I),
)
