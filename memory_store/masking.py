"""Secrets and personal data, masked before anything touches the disk (N11).

Two steps, since nearly every event is innocent: one pass of an Aho-Corasick automaton over the encoded event looks
for the letters that each rule needs, and only the rules that it names are run, field by field. A masked text reads
`[masked:aws_key]`; masking it again changes nothing, and JSON stays JSON.

Names of things are left alone (subject, tool, task type, ids): masking them would make two subjects one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ahocorasick_rs import BytesAhoCorasick

from .events import Event

#: A function of the user's own that masks text; it must return the text unchanged when there is nothing to mask.
Screen = Callable[[str], str]

#: Columns that hold what was said and done.
FIELDS = ("name", "content", "arguments", "result", "error_message", "attributes")
_DEPTH = 4


@dataclass(frozen=True)
class Rule:
    """One kind of thing that is masked."""

    #: Its name in the mask
    name: str
    #: One of these is in every text that the rule can match; empty: the rule is always run
    triggers: tuple[str, ...]
    #: What to mask: the group `it` if there is one, else the whole match
    pattern: re.Pattern[str]
    #: A last word on a match, such as a checksum
    check: Callable[[str], bool] | None = None


def _rule(name: str, triggers: str, pattern: str, check: Callable[[str], bool] | None = None) -> Rule:
    return Rule(name, tuple(triggers.split()), re.compile(pattern, re.DOTALL), check)


_START = r"(?<![A-Za-z0-9])"
_END = r"(?![A-Za-z0-9])"
_KEY_WORDS = (
    r"passw(?:or)?d|passwd|passphrase|pwd|secret|token|api[_ -]?key|access[_ -]?key|secret[_ -]?key|private[_ -]?key|"
    r"signing[_ -]?key|encryption[_ -]?key|account[_ -]?key|client[_ -]?secret|credentials?|authorization"
)
#: A key whose value is secret, whole: `db_password`, `X-Api-Key`, `clientSecret`.
_SECRET_KEY = re.compile(rf"(?i:[\w.-]{{0,60}}?(?:{_KEY_WORDS}))")
#: Keys that end like one and aren't: cursors of pages.
_CURSOR = re.compile(r"(?i)(?:page|next|continuation|continue|sync|cursor|prev(?:ious)?)[_-]?token$")
#: Values that say there is no secret here.
_PLACEHOLDER = re.compile(
    r"(?i)(?:\s*|none|null|nil|true|false|undefined|required|optional|redacted|string|str|\*+|x+|\.+|<[^>]*>|"
    r"\$?\{.*\}|\$\(.*\)|\$\w+|%\w+%|\[masked:.*|os\.environ.*|process\.env.*)"
)
_MASK = re.compile(r"\[masked:[a-z_]+\]")


def _has_digit(text: str) -> bool:
    return any(c.isdigit() for c in text)


def _looks_secret(text: str) -> bool:
    """Whether what follows `password=` is a value, not prose."""
    return not _PLACEHOLDER.fullmatch(text) and (_has_digit(text) or not text.isalpha())


def _luhn(text: str) -> bool:
    """The check digit of card numbers (ISO/IEC 7812-1)."""
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    doubled = [d if i % 2 == 0 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _chinese_id(text: str) -> bool:
    """The check character of the Chinese resident id (GB 11643)."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(c) * weight for c, weight in zip(text, weights, strict=False))
    return "10X98765432"[total % 11] == text[-1].upper()


def _iban(text: str) -> bool:
    """The check digits of bank accounts (ISO 13616)."""
    packed = re.sub(r"\s", "", text)
    return int("".join(str(int(c, 36)) for c in packed[4:] + packed[:4])) % 97 == 1


#: API keys, tokens, private keys, connection strings.
SECRETS: tuple[Rule, ...] = (
    _rule(
        "private_key", "PRIVATE",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\\+[nrt]|[A-Za-z0-9+/=\s:,.-])*",
    ),
    _rule("aws_key", "AKIA ASIA ABIA ACCA", rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}{_END}"),
    _rule("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_START}gh[pousr]_[A-Za-z0-9]{{36,255}}"),
    _rule("github_token", "github_pat_", rf"{_START}github_pat_[A-Za-z0-9_]{{22,255}}"),
    _rule("gitlab_token", "glpat- gldt- glrt- glptt- glcbt- glsoat- glft-",
          rf"{_START}gl(?:pat|dt|rt|ptt|cbt|soat|ft)-[\w-]{{20,}}"),
    _rule("slack_token", "xoxa- xoxb- xoxe xoxo- xoxp- xoxr- xoxs- xapp-",
          rf"{_START}(?:xox[abeoprs]|xapp)[.-][A-Za-z0-9.-]{{10,}}"),
    _rule("slack_webhook", "hooks.slack.com",
          r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_+-]{20,}"),
    _rule("api_key", "sk-", rf"{_START}sk-[A-Za-z0-9_-]{{20,}}", _has_digit),
    _rule("google_key", "AIza", rf"{_START}AIza[\w-]{{35}}"),
    _rule("google_token", "ya29. GOCSPX-", rf"{_START}(?:ya29\.|GOCSPX-)[\w-]{{20,}}"),
    _rule("stripe_key", "sk_live_ rk_live_ sk_test_ rk_test_ whsec_",
          rf"{_START}(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{{10,}}"),
    _rule("huggingface_token", "hf_", rf"{_START}hf_[A-Za-z0-9]{{30,}}"),
    _rule("npm_token", "npm_", rf"{_START}npm_[A-Za-z0-9]{{36}}"),
    _rule("pypi_token", "pypi-", rf"{_START}pypi-[\w-]{{50,}}"),
    _rule("sendgrid_key", "SG.", rf"{_START}SG\.[\w-]{{16,32}}\.[\w-]{{16,64}}"),
    _rule("telegram_token", ":AA", rf"{_START}\d{{8,10}}:AA[\w-]{{32,34}}"),
    _rule("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _rule("databricks_token", "dapi", rf"{_START}dapi[a-f0-9]{{32}}"),
    _rule("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    _rule("vault_token", "hvs. hvb. hvr.", rf"{_START}hv[sbr]\.[\w-]{{24,}}"),
    _rule("api_key", "gsk_ pplx- r8_ xai- tvly- figd_ ntn_ lin_api_ pscale_ glsa_ glc_ NRAK- PMAK- ATATT3 dckr_pat_",
          rf"{_START}(?:gsk_|pplx-|r8_|xai-|tvly-|figd_|ntn_|lin_api_|pscale_(?:tkn|pw)_|glsa_|glc_|NRAK-|PMAK-|"
          r"ATATT3|dckr_pat_)[\w=.-]{20,}", _has_digit),
    _rule("age_key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _rule("jwt", "eyJ", rf"{_START}eyJ[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*){{1,3}}"),
    _rule("azure_key", "AccountKey= SharedAccessKey= sig=",
          r"(?:AccountKey=|SharedAccessKey=|[?&;]sig=)(?P<it>[A-Za-z0-9+/%]{30,}=*)"),
    _rule("connection_string", "://",
          r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'\\<>]{0,100}:(?P<it>[^\s/@\"'\\<>]{1,200})@",
          lambda text: not _PLACEHOLDER.fullmatch(text)),
    _rule("authorization", "earer asic EARER ASIC",
          r"(?i:\b(?:bearer|basic)\s+)(?P<it>[A-Za-z0-9+/_.~=-]{16,})", _has_digit),
    _rule(
        "password", "assw ASSW pwd Pwd PWD ecret ECRET oken OKEN api_k apiK apik api-k ApiK API_K API-K Api-K API_k "
        "Api_k ess_k ess-k essK essk ESS_K ess-K redential REDENTIAL thoriz nt_k ntK NT_K ing_k ing-k ingK ING_K ion_k "
        "ion-k ionK ION_K",
        rf"(?i:(?<![a-z])[\w.-]{{0,60}}?(?:{_KEY_WORDS}))[\"']?\s{{0,3}}(?:=|:=|:|=>)\s{{0,3}}"
        r"(?:\"(?P<it>(?:[^\"\\]|\\.){1,4000})\"|'(?P<it2>(?:[^'\\]|\\.){1,4000})'|(?P<it3>[^\s\"'\\,;&<>{}\[\]()]{4,}))",
        _looks_secret,
    ),
)

#: E-mail addresses, phone numbers, national ids, cards, bank accounts.
PERSONAL: tuple[Rule, ...] = (
    _rule("email", "@", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"),
    _rule("national_id", "",
          r"(?<![0-9A-Za-z])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[0-9Xx](?![0-9A-Za-z])",
          _chinese_id),
    _rule("national_id", "", r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
    _rule("card", "", r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])", _luhn),
    _rule("iban", "", r"(?<![0-9A-Za-z])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![0-9A-Za-z])", _iban),
    _rule("phone", "", r"(?<![\w+])\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,12}(?!\w)"),
    _rule("phone", "", r"(?<![\w.-])1[3-9]\d{9}(?![\w.-])"),
    _rule("phone", "", r"(?<![\w.-])(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])"),
)


class Mask:
    """What is masked, ready to use: build it once. Safe to share between threads.

    >>> Mask().text("export AWS_KEY=AKIAIOSFODNN7EXAMPLE")
    ('export AWS_KEY=[masked:aws_key]', 1)
    """

    def __init__(self, secrets: bool = True, personal: bool = False, screens: Sequence[Screen] = ()) -> None:
        rules = (SECRETS if secrets else ()) + (PERSONAL if personal else ())
        self._always = tuple(rule for rule in rules if not rule.triggers)
        triggered = [rule for rule in rules if rule.triggers]
        needles = list(dict.fromkeys(trigger for rule in triggered for trigger in rule.triggers))
        self._rules_of = [tuple(rule for rule in triggered if needle in rule.triggers) for needle in needles]
        self._order = {id(rule): place for place, rule in enumerate(rules)}
        self._needles = BytesAhoCorasick([needle.encode() for needle in needles]) if needles else None
        self._screens = tuple(screens)
        #: Whether every event must be looked at, whatever is in it
        self.is_thorough = bool(self._always or self._screens)

    def suspects(self, raw: bytes) -> bool:
        """Whether encoded text may hold something to mask. A quick look: false alarms, but no misses."""
        return self.is_thorough or (self._needles is not None and bool(self._needles.find_matches_as_indexes(raw)))

    def event(self, event: Event) -> int:
        """Mask the fields of an event in place, add to its `masked`, and return how many things were masked."""
        total = 0
        for name in FIELDS:
            value = getattr(event, name)
            if value:
                masked, count = self.json(value) if value[0] in "{[" else self.text(value)
                if count:
                    setattr(event, name, masked)
                    total += count
        event.masked += total
        return total

    def text(self, text: str) -> tuple[str, int]:
        """The text with everything masked, and how many things that were."""
        count = 0
        for rule in self._suspicions(text):
            text, n = _apply(rule, text)
            count += n
        for screen in self._screens:
            screened = screen(text)
            if screened != text:
                count += max(1, len(_MASK.findall(screened)) - len(_MASK.findall(text)))
                text = screened
        return text, count

    def json(self, text: str) -> tuple[str, int]:
        """JSON text with the strings and numbers inside it masked; text that is no JSON is masked as text."""
        if not self.suspects(text.encode("utf-8", "surrogatepass")) and "\\u" not in text:
            return text, 0
        try:
            value = json.loads(text)
            masked, count = self._value(value, 0)
            if not count:
                return text, 0
            return json.dumps(masked, ensure_ascii=False, allow_nan=False, separators=(",", ":")), count
        except (ValueError, RecursionError):
            return self.text(text)

    def _suspicions(self, text: str) -> Iterable[Rule]:
        if self._needles is None:
            return self._always
        hits = self._needles.find_matches_as_indexes(text.encode("utf-8", "surrogatepass"))
        found = {id(rule): rule for needle, _, _ in hits for rule in self._rules_of[needle]}
        found.update((id(rule), rule) for rule in self._always)
        return sorted(found.values(), key=lambda rule: self._order[id(rule)])

    def _value(self, value: Any, depth: int) -> tuple[Any, int]:
        if isinstance(value, str):
            if depth < _DEPTH and value[:1] in ("{", "["):
                return self.json(value)
            return self.text(value)
        if isinstance(value, dict):
            return self._object(value, depth)
        if isinstance(value, list):
            pairs = [self._value(item, depth) for item in value]
            return [item for item, _ in pairs], sum(count for _, count in pairs)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self.is_thorough:
            masked, count = self.text(str(value))
            return (masked, count) if count else (value, 0)
        return value, 0

    def _object(self, value: dict[str, Any], depth: int) -> tuple[dict[str, Any], int]:
        result: dict[str, Any] = {}
        total = 0
        for key, item in value.items():
            masked, count = self._value(item, depth)
            if not count and isinstance(item, str) and self._needles is not None and _is_secret(key, item):
                masked, count = "[masked:password]", 1
            result[key] = masked
            total += count
        return result, total


def _is_secret(key: str, value: str) -> bool:
    return (
        len(value) >= 4
        and _SECRET_KEY.fullmatch(key) is not None
        and not _CURSOR.search(key)
        and not _PLACEHOLDER.fullmatch(value)
    )


def _apply(rule: Rule, text: str) -> tuple[str, int]:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        group = next((name for name, part in match.groupdict().items() if part is not None), 0)
        found = match[group]
        if _MASK.search(found) or (rule.check is not None and not rule.check(found)):
            return match[0]
        if rule.name == "password" and _CURSOR.search(match[0][: match.start(group) - match.start()].rstrip("\"'=: >")):
            return match[0]
        count += 1
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:start]}[masked:{rule.name}]{match[0][end:]}"

    return rule.pattern.sub(replace, text), count
