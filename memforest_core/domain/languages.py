"""The language of a text, by its script and its function words, and those words by language."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

ENGLISH = "english"

_FUNCTION_WORDS = {
    ENGLISH: """a about above after again against all am an and any are as at be because been before being below
        between both but by can did do does doing don down during each few for from further had has have
        having he her here hers herself him himself his how i if in into is it its itself just me more most
        my myself no nor not now of off on once only or other our ours ourselves out over own s same she
        should so some such t than that the their theirs them themselves then there these they this those
        through to too under until up very was we were what when where which while who whom why will with
        would you your yours yourself yourselves ll ve re d m""",
    "german": """aber alle als am an auch auf aus bei beim bin bis bist da damals damit dann das dass daß dein deine
        deiner dem den denn der des die dies diese dieser dieses dir doch dort du durch ein eine einem einen
        einer eines er es etwas euch für gegen gehabt gewesen hab habe haben hast hat hatte hatten hier
        hinter ich ihm ihn ihr ihre ihrem ihren ihrer im in ins ist ja jetzt kein keine können kann man mein
        meine meinem meinen meiner mich mir mit muss nach nicht nichts noch nun nur ob oder ohne schon sehr
        sein seine seinem seinen seiner seit sich sie sind so um und uns unser unsere unter vom von vor wann
        war waren warum was weil welche welchem welchen welcher welches wem wen wenn wer werde werden wie
        wieder will wir wird wo woher wohin wurde wurden zu zum zur zwischen über""",
    "french": """a ai ainsi alors après as au aussi autre aux avait avais avant avec avez avons c ce cela celle ces
        cet cette chez comme comment contre d dans de depuis des donc dont du elle elles en encore entre es
        est et ont étaient étais était été être eu eux fut il ils j je jusqu jusque l la là le les leur
        leurs lequel lors lui m ma mais me même mes moi mon n ne ni nos notre nous on où ou par parce pas
        pendant peu plus pour pourquoi puis qu quand que quel quelle quelles quels quelque qui quoi s sa
        sans se sera ses si sommes son sont sous suis sur t ta te tes toi ton tous tout toute très tu un une
        vers voici vos votre vous y à ça""",
    "spanish": """a al algo antes así aunque aún cada casi como cómo con contra cual cuál cuales cuáles cuando cuándo
        cuanto cuánto de del desde después despues donde dónde el él ella ellas ellos en entre era eran eres
        es esa ese eso esos esta está estaba estamos están estar este esto estos estoy fue fueron fui ha
        había han has hasta hay he hemos hace la las le les lo los más me mi mí mientras mis mucho muy nada
        ni no nos nosotros nuestra nuestro o os otra otro para pero poco por porque pues que qué quien quién
        se sea según ser si sí sido siempre sin sobre somos son soy su sus también tambien tanto te tenía
        tengo ti tiene toda todo todos tu tú tus un una unas uno unos y ya yo""",
    "italian": """a abbiamo agli ai al alla alle allo anche ancora aveva avevo c che chi ci coi col come con cosa così
        cui d da dagli dai dal dalla dalle de degli dei del dell della delle dello di dopo dove dov e è ed
        era erano ero essere fa fino fra fu gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me
        mentre mi mia mie miei mio molto ne negli nei nel nell nella nelle nello no noi non nostra nostro o
        ogni per perché perchè più poi prima qual quale quali quando quanto quella quelle quelli quello
        questa queste questi questo qui quindi se sei sempre senza si siamo sono sta stata stato su sua sue
        sugli sui sul sull sulla suo suoi te ti tra tu tua tue tuo tutti tutto un una uno vi voi""",
    "portuguese": """a agora ainda ao aos após aquela aquele aquilo as até com como da das de dela dele depois desde do
        dos e é ela elas ele eles em entre era eram essa esse esta está estão estava estou este eu foi foram
        fui há isso isto já lhe mais mas me mesmo meu meus minha minhas muito muita na nas não nao nem no
        nos nós nossa nosso num numa nunca o onde os ou para pela pelas pelo pelos pode por porque porquê
        qual quais quando quanto que quê quem se sem sempre ser seu seus só sobre sou sua suas também tambem
        te tem tenho tinha teu tua tudo tu um uma uns você voce vocês""",
    "dutch": """aan al alles als altijd andere ben bent bij daar dan dat de deze die dit doch doen door dus een eens
        en er ge geen geweest had haar hadden heb hebben hebt heeft heel hem het hier hij hoe hun iemand
        iets ik in is ja je jij jou jouw jullie kan kon kunnen maar me meer men met mij mijn moet na naar
        niet niets nog nu of om omdat ons onze ook op over reeds sinds te tegen toch toen tot u uit uw van
        veel voor waar waarom wanneer want waren was wat we welk welke werd wezen wie wij wil worden wordt
        zal ze zelf zich zij zijn zo zonder zou""",
    "swedish": """alla allt att av blev bli blir både de dem den denna deras dess det detta dig din dina ditt du där
        då efter ej eller en er ett från för ha hade han hans har hela henne hennes hon honom hur här i icke
        ingen inom inte jag ju kan kunde man med mellan men mig min mina mitt mot mycket ni nu när någon
        något några och också om oss på samma sedan sig sin sina själv skulle som så till under upp ut utan
        vad var vara varför varit vart vem vi vid vilka vilken vilket vår våra åt än är över""",
    "danish": """ad af aldrig alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din
        dine disse dit dog du efter eller en end er et for fordi fra få ham han hans har havde have hende
        hendes her hos hun hvad hvem hvilken hvis hvor hvordan hvorfor hvornår i ikke ind ingen ja jeg jer
        kan kun lige man mange med meget mellem men mens mig min mine mit mod ned nej nogen noget nogle nu
        når og også om op os over på sig sin skal skulle som sådan til ud uden under var ved vi vil ville
        vor være været""",
    "norwegian": """alle at av bare begge ble blei blir både da de deg dei dem den denne der dere deres det dette di din
        ditt du eg ei eller en enn er et ett etter for fordi fra før ha hadde han hans har hennes her hun
        hva hvem hver hvilken hvis hvor hvordan hvorfor i ikke ingen inn ja jeg kan kun kunne man mange med
        meg mellom men min mine mitt mot mye ned nei noe noen nå når og også om opp oss over på samme seg
        selv siden sin sitt skal skulle slik som så til ut uten var ved vi vil ville vår være vært""",
    "finnish": """ei eivät eli emme en ennen entä et että he heidän heille hän häneen häneltä hänelle hänen häntä ihan
        ja jo joka jolla jonka jos joskus jossa jota jotka juuri kaikki kanssa keitä keneltä kenen ketä
        koska kuin kuinka kuka kun kyllä me meidän meille mihin mikä miksi millainen milloin minkä minne
        minua minulla minulle minun minusta minut minä missä mistä mitkä mitä mukaan mutta myös ne niiden
        niin niitä noin nyt näin nämä oli olemme olemme olen olet olevat olimme olin olisi olivat olla ollut
        on ovat se sen sillä sinua sinulla sinun sinä sitten sitä siellä siis tai te teidän tuo tämä tämän
        tästä tässä vaan vai vaikka vain vielä voi yhä""",
    "russian": """без более бы был была были было быть в вам вас весь во вот все всё всегда всех вы где да даже для до
        его ее её если есть еще ещё же за здесь и из или им их к как какая какой какое какие когда кого кто
        которая которого которое которой которые который ли либо меня мне мной мои мой моя моё моей моего мы
        на над надо нам нас наш наша не него нее неё нет ни ним ними них но ну о об однако он она они оно от
        очень по под после потому почему при про раз с сам сейчас себя со так также такой там тебя тем то
        тоже только том тот ту ты у уже чего чей чем что чтобы эта эти это этого этой этом этот я""",
    "turkish": """acaba ama ancak artık aslında az bana bazı ben beni benim bile bir biraz biri birçok biz bize bizi
        bizim bu buna bunda bundan bunu bunun burada çok çünkü da daha de değil diye dolayı en gibi hangi
        hatta hem henüz hep hepsi her herhangi herkes hiç için idi ile ilk ise işte kadar kendi ki kim kime
        kimi kimin mi mı mu mü nasıl ne neden nerede nereden nereye niçin niye o olan olarak oldu olduğu
        onlar onların onu onun orada oysa peki rağmen sadece sana sen seni senin siz sizin sonra şey şimdi
        şu tüm var ve veya ya yani yine yok zaten zaman""",
    "romanian": """a acea aceasta această aceea aceia acel acela acele acest acesta aceste acolo acum ai aici al ale am
        ar are asta astfel asupra au avea avem avut ca că când cand care ce cel cele cine cu cum când dar de
        deci deja deși despre din dintre doar după dupa e ea ei el ele era erau este eu fi fie fost fără iar
        ici în îi îl îmi și si își la le lor lui meu mea mei mele mi mie mult mă ne nici nimic noastră
        noi nostru nu o or ori pe pentru peste prin până sa să său sau se spre sub sunt ta tu tău toate tot
        toți unde un una unei unii unui va vă voi vostru vouă""",
    "hungarian": """a abban ahhoz ahogy ahol aki akkor alatt amely ami amikor az azok azon azonban azt azért be benne
        csak de egy ehhez ekkor el elég ellen elő előtt én engem ennek erre ez ezek ezen ezt ezért fel felé
        ha hanem hogy hogyan hol honnan hová hova illetve is ismét itt kell kellett keresztül ki kinek kit
        közben között le legyen lehet lenne lenni lett maga meg mely mert mi miért mikor milyen mind mindig
        mint mit most már más másik még míg nagyon ne nekem neked neki nekünk nem nincs olyan ott pedig s
        saját sem sok során számára szemben és tehát több ti utána után vagy vagyok valaki valami van vannak
        velem vissza volna volt voltak voltam által át ő őt ők össze""",
    "greek": """αλλά αν αντί από απο αυτά αυτές αυτή αυτό αυτοί αυτός αυτού αφού για γιατί δε δεν εγώ εδώ εκεί είμαι
        είναι είσαι είχα είχε εμένα εμείς ένα έναν ένας εσύ εσένα έτσι έχει έχεις έχω η ήδη ήμουν ήταν θα
        και κάθε καμία κάποιος κάτι κι μα μας με μέσα μετά μέχρι μη μην μια μία μου να ο όμως όπου όπως όσο
        όταν ότι ού ούτε οι όχι πια πιο ποια ποιο ποιος ποιον πολύ πότε ποτέ που πού πριν πρέπει προς πως
        πώς σαν σας σε στα στη στην στις στο στον στους σου τα τη την της τι τις το τον του τους τότε των ως""",
    "arabic": """أن أنا أنت أنتم أنه أو أي أين إذا إلا إلى إن إنه التي الذي الذين اليوم اي اين الى ان انا او بعد بل
        به بها بين تحت تلك ثم حتى حين حيث دون ذلك سوف شيء عن عند عندما عندي على علي عليه عليها غير فقط فوق
        في فيه فيها قبل قد كان كانت كل كم كما كنت كيف لا لأن لدي لقد لكن لم لماذا لن له لها لهم لي ليس ليست
        ما ماذا متى مع من منذ منه منها نحن هذا هذه هل هم هنا هناك هو هي و يا""",
    "hindi": """अगर अपना अपनी अपने अब अभी आप आपका आपकी आपके इस इसका इसकी इसके इसलिए इसे उन उनका उनकी उनके उन्होंने
        उस उसका उसकी उसके उसने उसे एक ऐसा और कब कभी कर करके करता करते करना करने कहाँ कहां का काफ़ी कि किस
        किसी किसका किसने की कुछ के केवल कैसे को कोई कौन क्या क्यों गई गए गया जब जहाँ जा जाता जिस जी जैसे जो
        तक तब तुम तुम्हारा तू तो था थी थे दिया दो द्वारा नहीं ने पर फिर बहुत बाद भी मगर मुझे मुझको में मेरा
        मेरी मेरे मैं मैंने यह यहाँ या ये रहा रही रहे लिए लेकिन वह वहाँ वाला वाले वाली वे सब सभी साथ से ही
        हुआ हुई हुए हूँ हूं है हैं हम हमारा हो होता होती होने""",
}
STOP_WORDS = {
    language: frozenset(unicodedata.normalize("NFKC", words).casefold().split())
    for language, words in _FUNCTION_WORDS.items()
}
"""Function words by Snowball language, casefolded: they carry no evidence. English has the rests of short forms too."""

_SCRIPTS = {
    "russian": "\u0400-\u052f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "hindi": "\u0900-\u097f",
    "tamil": "\u0b80-\u0bff",
    "armenian": "\u0530-\u058f",
}
"""Scripts that have one Snowball language; words in them are stemmed by it, whatever surrounds them."""
_BY_SCRIPT = [(re.compile(f"[{letters}]"), language) for language, letters in _SCRIPTS.items()]
_OTHER = re.compile("[" + "".join(_SCRIPTS.values()) + "]")
_LATIN = re.compile("[a-zA-Z\u00c0-\u024f]")
LATIN = tuple(language for language in STOP_WORDS if language not in _SCRIPTS)
"""The languages in Latin letters, English first."""

_ENGLISH_SPELLINGS = """ad al alias alt ancora ant are art bare been beg ben bent big bit biz bus but ca can care com
come comment con cum da dan de den der des die dig dim din dine dog don door dos dot due dug el
elite em en end era es et fa fast fin fine form fort fun fur got ha ham han hat hay hem hid hun
hung ici ill ins kin kind la le lei let lung ma mad man mange mas me men mere mes met mi mind
mine mint mit mod mode moe mon mucho nada nah non nos nu omit onto or ore os pa pas pay pendant
per pest plus pour pro quit re rest sa san sang se sea sent sera sex sin sit son sous spot sub
sue sur sure ta tale tall tan te ten ti tie til till ton tot tout tu tut two undo us va van var
ve vet via vide vine want war ware wie wig y ya yet"""
_ENGLISH_WORDS = frozenset(_ENGLISH_SPELLINGS.split())
"""English words, or parts of names, that are function words elsewhere: they tell little about the language."""

_LETTERS = {"german": "ßẞä", "spanish": "ñ¿¡", "portuguese": "ãõ", "norwegian": "ø", "danish": "ø", "swedish": "åä"}
_LETTERS |= {"turkish": "ğışİ", "romanian": "ășțţ", "hungarian": "őű", "french": "çœ", "finnish": "ä"}
_BY_LETTER: dict[str, list[str]] = {}
for _language, _letters in _LETTERS.items():
    for _letter in _letters:
        _BY_LETTER.setdefault(_letter, []).append(_language)
_EVIDENCE_LETTER = re.compile("[" + "".join(_BY_LETTER) + "]")


_SHARED = 0.5
"""What a word speaks for each language when English has it as well; others speak for theirs with 1 to 2."""


def _telling_words() -> dict[str, tuple[tuple[str, float], ...]]:
    """For each function word its Latin languages; a word of few languages is stronger evidence than one of many."""
    speakers: dict[str, list[str]] = {"I": [ENGLISH]}
    for language in LATIN:
        for word in STOP_WORDS[language]:
            if len(word) > 1 or not word.isascii():
                speakers.setdefault(word, []).append(language)
    telling = {}
    for word, found in speakers.items():
        shared = word in _ENGLISH_WORDS or (ENGLISH in found and len(found) > 1)
        weight = _SHARED if shared else 1.0 + 1.0 / len(found)
        telling[word] = tuple((language, weight) for language in found)
    return telling


_EVIDENCE = _telling_words()
_FOREIGN_ONLY = frozenset(word for word, found in _EVIDENCE.items() if found[0][0] != ENGLISH and found[0][1] > _SHARED)
_ENGLISH_ONLY = frozenset(word for word, found in _EVIDENCE.items() if found[0][0] == ENGLISH and found[0][1] > _SHARED)
_SAMPLE = 600
"""Characters that are read: a paragraph is enough for its language."""
_RUN = re.compile(r"[^\W\d_]+")
_OPENING = re.compile(r"(?:[^\W\d_][^:\n]{0,60}:)?[^\w\n]*([^\W\d_]+)")
"""The first word, perhaps after a speaker's name."""
_SURE = 2
"""Different function words that make a text another language than English."""
_CLOSE = 0.5
"""A question may be in any language with this share of the best one's score."""


def own_language(word: str, language: str) -> str:
    """What stems a word in a text of ``language``: the language of its script if that is not the text's."""
    other = None if word[0] < "\u0370" else _script(word)
    if other is None:
        return ENGLISH if language in _SCRIPTS else language
    return other if language in STOP_WORDS else language


def language_of(text: str) -> str:
    """The likeliest language of a text, by its first 600 characters: one of Snowball's, English when unsure.

    Other scripts tell it by themselves. Among Latin ones another language needs two of its function words and more
    of them than English ones. A capitalized word counts at the head of the text only, so that "Los Angeles" is no
    Spanish.
    """
    return guess(text) or ENGLISH


def guess(text: str) -> str | None:
    """As ``language_of``, but None where neither another language nor English shows itself."""
    return _guess(text[:_SAMPLE])


@lru_cache(maxsize=4_096)
def _guess(sample: str) -> str | None:
    if not sample.isascii() and _OTHER.search(sample):
        other = _script(sample)
        if other is not None:
            return other
    found = _words(sample)
    if _FOREIGN_ONLY.isdisjoint(found):
        return None if _ENGLISH_ONLY.isdisjoint(found) else ENGLISH
    scores, counts = _scores(found, sample)
    english = scores.get(ENGLISH, 0.0)
    best = max((language for language in scores if language != ENGLISH), key=scores.__getitem__, default=None)
    if best is not None and scores[best] > english and counts[best] >= _SURE:
        return best
    return ENGLISH if english > 0.0 and (best is None or english >= scores[best]) else None


def text_languages(text: str) -> list[str]:
    """The languages that the lines of a text show themselves to be in, in order of appearance, without English."""
    found = [guess(text), *(guess(line) for line in text.split("\n"))]
    return [language for language in dict.fromkeys(found) if language is not None and language != ENGLISH]


def plausible(text: str) -> tuple[str, ...]:
    """The languages in Latin letters that a short text, such as a question, may be in: likeliest first.

    English alone for plain English. Otherwise the best three with at least half of the best one's score, then English
    in any case: what was said may be in it. Every language when there is no function word to go by, English first.
    """
    sample = text[:_SAMPLE]
    scores, counts = _scores(_words(sample), sample)
    if not scores:
        return (ENGLISH, *LATIN[1:])
    english = scores.pop(ENGLISH, 0.0)
    best = max(scores.values(), default=0.0)
    close = [one for one in scores if scores[one] >= _CLOSE * max(best, english) and (counts[one] or best > english)]
    ranked = sorted(close, key=lambda language: -scores[language])[:3]
    return (ENGLISH, *ranked) if english >= best else (*ranked, ENGLISH)


def _words(sample: str) -> set[str]:
    """Words as they are written, but for the first: a name's capital excludes it."""
    found = set(_RUN.findall(sample))
    opening = _OPENING.match(sample)
    if opening:
        found.add(opening[1].lower())
    return found


def _scores(found: set[str], sample: str) -> tuple[dict[str, float], dict[str, int]]:
    """What function words and letters speak for each Latin language, and how many words do that English has not."""
    scores: dict[str, float] = {}
    counts: dict[str, int] = {}
    for word in found & _EVIDENCE.keys():
        for language, weight in _EVIDENCE[word]:
            scores[language] = scores.get(language, 0.0) + weight
            counts[language] = counts.get(language, 0) + (weight > _SHARED)
    if not sample.isascii():
        for letter in set(_EVIDENCE_LETTER.findall(sample)):
            for language in _BY_LETTER[letter]:
                if language in scores:
                    scores[language] += 1.0
                    counts[language] += 1
    if len(scores) > 1:
        # Sets have no order: equal scores must not depend on it.
        scores = {language: round(scores[language], 6) for language in LATIN if language in scores}
    return scores, counts


def _script(sample: str) -> str | None:
    """The language of the script that most letters are in, if it has one language."""
    latin = len(_LATIN.findall(sample))
    for script, language in _BY_SCRIPT:
        if len(script.findall(sample)) > latin:
            return language
    return None


_MONTHS = {
    "german": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "french": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "swedish": "januari februari mars april maj juni juli augusti september oktober november december",
    "danish": "januar februar marts april maj juni juli august september oktober november december",
    "norwegian": "januar februar mars april mai juni juli august september oktober november desember",
    "finnish": "tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu "
    "joulukuu",
    "russian": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "turkish": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
    "romanian": "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
    "hungarian": "január február március április május június július augusztus szeptember október november december",
    "greek": "Ιανουάριος Φεβρουάριος Μάρτιος Απρίλιος Μάιος Ιούνιος Ιούλιος Αύγουστος Σεπτέμβριος Οκτώβριος Νοέμβριος "
    "Δεκέμβριος",
    "arabic": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "hindi": "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
}
_MONTH_NAMES = {language: tuple(names.split()) for language, names in _MONTHS.items()}


def month_name(month: int, language: str) -> str:
    """A month, 1 to 12, as a language writes it in dates; empty for a language whose months are not known here."""
    names = _MONTH_NAMES.get(language)
    return names[month - 1] if names else ""
