"""Statements in English clauses."""

from __future__ import annotations

import re

from .attributes import attribute_of
from .statements import Statement, channel_of, clean_value, liking, of_attribute, slug, state

_FILLER = re.compile(
    r"^(?:hi|hello|hey|actually|also|oh|yes|yeah|no|nope|sorry|well|ok|okay|right|sure|please note(?: that)?|"
    r"note(?: that)?|"
    r"by the way|btw|fyi|for your information|just so you know|you should know(?: that)?|remember(?: that)?|"
    r"please remember(?: that)?|keep in mind(?: that)?|and|but|so|because|since|though|then|now|as (?:i|you know)|"
    r"as i said|like i said|again|to be clear|for the record|anyway|thanks|thank you|perfect|great)[\s,:!.-]+",
    re.I,
)
_ATTRIBUTE = r"(?P<what>(?:[A-Za-z][\w'’-]*\s){0,3}?[A-Za-z][\w'’-]*)"
_MY = re.compile(
    rf"^(?:my|our|the(?= budget\b)) {_ATTRIBUTE}(?:\s+(?P<link>(?:is|are|will be|has (?:just )?(?:been )?changed "
    r"to|have (?:been )?changed to|(?:was |were )?(?:just )?changed to|went up to|went down to|is going to be|became|"
    r"should be|has become|increased to|decreased to|dropped to)(?: (?P<now>now|actually|currently|only))?)|"
    r"(?:\s+(?:is|are))?\s*:|'s(?=\s(?!.*\b(?:is|are)\b)))"
    r"\s+(?P<value>.+)$",
    re.I,
)
_NOT = re.compile(
    r"^(?:not|no longer|n't)\s+(?P<old>.+?)(?:(?:\s*,)?\s+(?:but|it's|it is|rather)\s+(?P<new>.+))?$", re.I
)
_SET = re.compile(
    rf"\b(?:change|update|set|switch|move|raise|lower|increase|reduce|correct|edit)\s+(?:my|our|the(?= budget\b)) "
    rf"{_ATTRIBUTE}(?: from (?P<old>.+?))? to (?P<value>.+)$",
    re.I,
)
_NAME = re.compile(
    r"^(?:(?i:this is|i'm|i am)(?=\s+[A-Z])|(?P<sure>(?i:my name(?:'s| is)|call me|i go by|people call me)))\s+"
    r"(?P<value>[A-Z\u00c0-\u00de][\w'’-]+(?:\s[A-Z\u00c0-\u00de][\w'’.-]+){0,3})(?P<rest>.*)$"
)
_ALLERGY = re.compile(
    r"^i(?:'m| am| have been)?\s*(?P<no>not |no longer )?(?:very |severely |really |highly |also )?"
    r"(?:allergic to|have an? (?:\w+ )?allergy to|intolerant (?:of|to))\s+(?P<value>[^,;]+)",
    re.I,
)
_ALLERGY_OF = re.compile(r"^i have an? (?P<value>[a-z]+) allergy\b", re.I)
_DIET = re.compile(
    r"^i(?:'m| am)(?: an?)?\s+(?P<value>(?:strict |lactose[- ]|gluten[- ])?(?:vegetarian|vegan|pescatarian|"
    r"intolerant|free|halal|kosher|keto|diabetic|coeliac|celiac))\b",
    re.I,
)
_DONT_EAT = re.compile(
    r"^i (?:don't|do not|can't|cannot|never) (?P<verb>eat|drink|have)\s+(?P<value>(?:any )?[a-z][a-z ]{2,40})$", re.I
)
_LIVE = re.compile(
    r"^(?i:i(?:'ve| have)?(?: just| recently| now| currently| still)?\s*(?:'m |am )?(?P<verb>live|living|reside|"
    r"am based|based|"
    r"moved|relocated)(?: now)? (?:in|to|at|near)) (?P<value>[A-Z\u00c0-\u00de][^;]*)$"
)
_FROM = re.compile(r"^(?i:i(?:'m| am| come) (?:originally )?from) (?P<value>[A-Z\u00c0-\u00de][\w .'’-]*)$")
_WORK_FOR = re.compile(
    r"^(?i:i(?: now| currently)? ?(?:'m |am )?(?:work|working|employed) (?:for|at)) (?P<value>[A-Z][\w .&'’-]*)$"
)
_JOB = re.compile(
    r"^i(?:'m| am| work as| am working as| work now as) (?:an?|the) (?P<value>(?:[a-z-]+ ){0,3}?(?:[a-z-]*(?:engineer|"
    r"developer|teacher|nurse|doctor|lawyer|student|designer|manager|scientist|analyst|accountant|writer|artist|"
    r"chef|driver|consultant|architect|journalist|researcher|professor|pharmacist|dentist|therapist|editor|"
    r"electrician|plumber|photographer|musician|farmer|pilot|translator|librarian|freelancer|entrepreneur|"
    r"director|administrator|programmer|salesperson|secretary|founder|retired|retiree)))(?: (?:at|for|in) .+)?$",
    re.I,
)
_AGE = re.compile(r"^i(?:'m| am| just turned| turned) (?P<value>\d{1,3})(?: years old| now)?$", re.I)
_MEMBER = re.compile(r"^i(?:'m| am) (?:a|an) (?P<value>[\w-]+)[ -](?:tier |level |status )?member\b", re.I)
_SPEAK = re.compile(
    r"^(?i:i (?:only |mainly |mostly )?speak) (?P<value>[A-Z][a-z]+(?:(?:,| and|, and) [A-Z][a-z]+){0,3})\b"
)
_BORN = re.compile(r"^i was born (?:on|in) (?P<value>.*\d.*)$", re.I)
_HAVE = re.compile(
    r"^i(?:'ve got| have| 've) (?P<value>(?:(?:an?|one|two|three|four|five|\d) (?:\w+ ){0,2})?(?:dogs?|cats?|kids?|"
    r"children|"
    r"child|sons?|daughters?|brothers?|sisters?|twins|diabetes|asthma|epilepsy|hypertension|migraines?|"
    r"celiac disease|wheelchair|car|house))\b(?: .*)?$",
    re.I,
)
_MARRIED = re.compile(r"^i(?:'m| am) (?P<value>married|single|divorced|widowed|engaged|pregnant)\b", re.I)
_LIKE = re.compile(
    r"^i (?:(?:really|also|usually|always|generally|absolutely|personally|just|still|do|particularly|especially|"
    r"quite|much|strongly|now|only) )*(?P<not>don't |do not |never )?(?:(?:really|usually|"
    r"particularly) )*(?P<verb>like|love|prefer|enjoy|"
    r"hate|dislike|can't stand|cannot stand|adore|avoid|favou?r) (?P<value>.+)$",
    re.I,
)
_NO_MORE = re.compile(
    r"^i (?:no longer|don't|do not)(?: really)? (?P<verb>like|love|enjoy|prefer|want|use|drink|eat|"
    r"hate)s? (?P<value>.+?)"
    r"(?P<anymore> any ?more)?$",
    re.I,
)
_CONTACT = re.compile(
    r"^(?:please |kindly |always |only )*(?P<no>(?:don't|do not|never|no)(?: ever)? )?(?P<verb>contact|reach|notify|"
    r"call|phone|"
    r"calls?|e-?mail|text|message|update|write)\b(?: to)?(?: me)?(?P<rest>.*)$",
    re.I,
)
_RULE = re.compile(
    r"^(?:please |you (?:should|must|need to|have to) |i (?:want|need|'d like|would like) you to |make sure (?:to |"
    r"that you |you )|be sure to )*"
    r"(?:(?P<durable>always|never|from now on|in (?:the )?future|going forward|every time|whenever|each time|"
    r"don't ever|"
    r"do not ever|under no circumstances|at all times)\b[\s,:]*)(?P<rest>.+)$",
    re.I,
)
_RULE_END = re.compile(
    r"\b(?:from now on|in (?:the )?future|going forward|every time|at all times|each time)[.!]?$", re.I
)
_ORDER = re.compile(
    r"^(?:please |you (?:should|must) |don't |do not |make sure (?:to |you )?|be sure to |only |"
    r"just )*(?P<verb>[a-z]+)\b",
    re.I,
)
_NO_ORDER = frozenset(
    str.split(
        "i i'm i've he she it we they my your the a an this that there is are was were has have had been what how "
        "when love thanks thank hope wonder think thought heard mind happens wanted being on at in with up under "
        "open available possible so very too here"
    )
)
_USE = re.compile(
    r"^(?:we|i) (?:always |only |"
    r"now )?use (?P<value>[\w.+# -]{2,40}?)(?: for (?P<what>[a-z][a-z ]{2,30}))?(?:,? (?:not|"
    r"instead of) (?P<old>[\w.+# -]{2,30}))?$",
    re.I,
)


def english_statement(text: str, *, question: bool = False) -> Statement | None:
    """What an English clause states; None if nothing lasting. In a question only a wish to change something counts."""
    clause, quote = text, text
    while (shorter := _FILLER.sub("", clause, count=1)) != clause and shorter:
        clause = shorter
    quote = clean_end(clause)
    clause = clause.replace("’", "'").strip(" .!,;")
    if match := _SET.search(clause):
        found = attribute_of(match["what"])
        if (
            found is not None
            and found.words
            and (said := state(match["what"], match["value"].rstrip("? "), quote, changed=True))
        ):
            return said
    if question:
        return None
    for reader in (_named, _mine, _body, _life, _contact, _rule, _taste):
        if said := reader(clause, quote):
            return said
    return None


def clean_end(text: str) -> str:
    """Their words as a line of their own."""
    return text.strip().strip(",;:- ").strip()


def _named(clause: str, quote: str) -> Statement | None:
    if not (match := _NAME.match(clause)) or (not match["sure"] and match["rest"].strip(" .,!")):
        return None
    if match["sure"] is None and len(match["value"].split()) > 3:
        return None
    name = clean_value(match["value"])
    if re.search(r"\d", name) or re.match(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b", name):
        return None
    sure = match["sure"] or ""
    attribute = "nickname" if sure.lower().startswith(("call me", "i go by", "people")) else "name"
    return of_attribute(attribute, name, quote, confidence=0.9 if sure else 0.6)


def _mine(clause: str, quote: str) -> Statement | None:
    if not (match := _MY.match(clause)):
        return None
    link, value = (match["link"] or "").lower(), match["value"]
    changed = bool(match["now"]) or any(
        word in link for word in ("chang", "went", "became", "become", "creas", "dropped")
    )
    if now := re.match(r"(?:now|currently)\s+", value, re.I):
        value, changed = value[now.end() :], True
    if negation := _NOT.match(value):
        old = clean_value(negation["old"])
        if new := negation["new"]:
            return state(match["what"], new, quote, changed=True)
        return state(match["what"], f"not {old}", quote, changed=True) if old else None
    value = re.split(
        r",? (?:not|instead of) | and (?=(?:the|my|i|it|this|that|today|we|then|you)\b)", value, flags=re.I
    )[0]
    return state(match["what"], value, quote, changed=changed)


def _body(clause: str, quote: str) -> Statement | None:
    if match := _ALLERGY.match(clause) or _ALLERGY_OF.match(clause):
        value = clean_value(match["value"])
        gone = bool(match.groupdict().get("no"))
        said = of_attribute("allergy", value, quote, changed=gone)
        if gone:
            return Statement(said.kind, quote, quote, said.attribute, "none", said.importance, 0.9, True)
        return said
    if match := _DIET.match(clause):
        return of_attribute("diet", match["value"].lower(), quote)
    if match := _DONT_EAT.match(clause):
        thing = clean_value(match["value"])
        if re.match(
            r"(?:it|that|this|any|much|time|a|an|the|to|my|access)\b(?! (?:meat|fish|pork|dairy|gluten|alcohol))",
            thing,
            re.I,
        ):
            return None
        if match["verb"].lower() == "have":
            return None
        return Statement(
            "preference", quote, quote, f"diet:{slug(thing)}", f"does not {match['verb'].lower()}", 0.8, 0.85
        )
    return None


def _life(clause: str, quote: str) -> Statement | None:
    pairs = (
        (_FROM, "city"),
        (_WORK_FOR, "employer"),
        (_JOB, "job"),
        (_AGE, "age"),
        (_BORN, "birthday"),
        (_SPEAK, "language"),
    )
    if match := _LIVE.match(clause):
        return of_attribute(
            "city", clean_value(match["value"]), quote, changed=match["verb"].lower() in ("moved", "relocated")
        )
    for pattern, attribute in pairs:
        if (match := pattern.match(clause)) and (value := clean_value(match["value"])):
            if attribute == "city":  # where one is from is not where one lives
                return Statement("fact", quote, quote, "origin", value, 0.6, 0.8)
            return of_attribute(attribute, value, quote)
    if match := _MEMBER.match(clause):
        return Statement("fact", quote, quote, "membership", match["value"].lower(), 0.6, 0.85)
    if match := _MARRIED.match(clause):
        return Statement("fact", quote, quote, "family_status", match["value"].lower(), 0.6, 0.85)
    if match := _HAVE.match(clause):
        return Statement(
            "fact", quote, quote, f"has:{slug(match['value'].split()[-1])}", match["value"].lower(), 0.5, 0.75
        )
    if match := _USE.match(clause):
        value, what = clean_value(match["value"]), match["what"]
        if (
            not value
            or re.match(r"(?:it|that|this|the|to|my|your|them|one)\b", value, re.I)
            or not (what or match["old"])
        ):
            return None
        attribute = f"use:{slug(what)}" if what else f"use:{slug(match['old'])}"
        return Statement("preference", quote, quote, attribute, value, 0.5, 0.7, bool(match["old"]))
    return None


def _rule(clause: str, quote: str) -> Statement | None:
    match = _RULE.match(clause)
    if match:
        rest = match["rest"]
        word = rest.split()[0].lower().strip(",.") if rest.split() else ""
        durable = match["durable"].lower()
        if durable in ("whenever", "every time", "each time"):
            # "Whenever I ask for X, do Y" orders; "every time I open it, it crashes" complains
            tail = re.split(r",\s*(?:please |you should |you must )?", rest, maxsplit=1)
            word = tail[1].split()[0].lower() if len(tail) == 2 and tail[1].split() else "it"
        elif durable in ("from now on", "in the future", "in future", "going forward", "at all times"):
            inner = _ORDER.match(rest)
            word = inner["verb"].lower() if inner else word
        if word in _NO_ORDER or len(rest.split()) < 2 or word.endswith("ed"):
            return None
    elif not (_RULE_END.search(clause) and (inner := _ORDER.match(clause)) and inner["verb"].lower() not in _NO_ORDER):
        return None
    return Statement("rule", quote, quote, importance=0.8, confidence=0.85)


def _contact(clause: str, quote: str) -> Statement | None:
    match = _CONTACT.match(clause)
    if not match:
        return None
    verb, rest = match["verb"].lower(), match["rest"]
    about_me = re.search(r"\bme\b", clause, re.I) is not None
    by = re.search(r"\b(?:by|via|through|over|on|using) (?:e-?mail|phone|text|sms|wechat|whatsapp|slack)\b", rest, re.I)
    direct = channel_of(verb) if verb not in ("update", "contact", "reach", "notify", "message", "write") else ""
    if match["no"]:
        channel = channel_of(verb) or channel_of(rest)
        if channel and (about_me or verb in ("calls", "call", "phone")) and len(rest.split()) <= 6:
            return of_attribute("contact_channel", f"not {channel}", quote, confidence=0.85)
        return None
    if by and about_me:
        return of_attribute("contact_channel", channel_of(by.group()), quote, confidence=0.85)
    if direct and about_me and re.search(r"\b(?:instead|only|rather than|not)\b", clause, re.I):
        return of_attribute("contact_channel", direct, quote, confidence=0.8)
    return None


def _taste(clause: str, quote: str) -> Statement | None:
    if match := _NO_MORE.match(clause):
        no_longer = "no longer" in clause.lower() or bool(match["anymore"])
        if no_longer and match["verb"].lower() in ("like", "love", "enjoy", "prefer", "use", "drink", "eat"):
            return liking(match["value"], "no longer", quote, changed=True)
        if no_longer and match["verb"].lower() == "hate":
            return liking(match["value"], "no longer dislikes", quote, changed=True)
    if not (match := _LIKE.match(clause)):
        return None
    verb, value = match["verb"].lower(), match["value"]
    if match["not"] and verb in ("prefer", "avoid"):
        return None
    value = re.split(
        r",? (?:over|rather than|instead of|more than|to(?= (?!\w+ing\b)\w+$)|because|since|when|if|but|as (?:it|"
        r"they))\b",
        value,
    )[0]
    likes = verb in ("like", "love", "enjoy", "adore", "favor", "favour")
    verdict = "prefers" if verb == "prefer" else "likes" if likes != bool(match["not"]) else "dislikes"
    if verb in ("hate", "dislike", "avoid") or "stand" in verb:
        verdict = "dislikes"
    return liking(value, verdict, quote)
