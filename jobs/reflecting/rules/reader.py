"""Statements of a whole message, in either language, in order."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ....memory_store.capture.events import Event
from .chinese import chinese_statement
from .english import english_statement
from .sentences import DOCUMENT, clauses_of, is_observation, own_words, sentences_of
from .statements import Statement, correction_of

_HAN = re.compile(r"[\u3400-\u9fff]")
#: Most statements of one message: one that holds more is a form or a document.
LIMIT = 12


def is_from_user(event: Event) -> bool:
    """Whether an event is the user's own words: only these are read for statements (N11)."""
    spoken = event.type == "message" and event.role == "user" and not is_observation(event.content)
    return spoken or (event.type == "feedback" and event.role in ("user", ""))


def statements_of(text: str, known: Mapping[str, Statement] | None = None) -> list[Statement]:
    """What a user's message states, in order, at most `LIMIT`.

    `known` are earlier statements of the same user by attribute, to which "not 5000, 8000" can refer.

    >>> [(s.attribute, s.value) for s in statements_of("My budget is now 8000. 我对花生过敏")]
    [('budget', '8000'), ('allergy:花生', '花生')]
    """
    found: dict[tuple[str, str], Statement] = {}
    for clause in clauses_of(text):
        if clause.hypothetical:
            continue
        read = chinese_statement if _HAN.search(clause.text) else english_statement
        said = read(clause.text, question=clause.question)
        if said is not None:
            found[said.kind, said.attribute or said.text.casefold()] = said
    before = {**(known or {}), **{said.attribute: said for said in found.values() if said.attribute}}
    for sentence in sentences_of(own_words(text)):
        said = None if sentence.endswith(("?", "？")) else correction_of(sentence, before)
        if said is not None:
            found[said.kind, said.attribute] = said
    lasting = list(found.values())
    if len(text) > DOCUMENT:  # the rules in a prompt are its author's, and come with every task
        lasting = [said for said in lasting if said.kind != "rule"]
    return lasting[:LIMIT]
