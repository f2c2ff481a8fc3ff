"""What secrets and personal data look like: one rule a kind of thing, as data.

The formats are those that their issuers publish; a rule that would match prose asks a second question (`check`).
Each rule names letters (`triggers`) one of which is in everything that it can match, so that innocent text never
meets a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One kind of thing that is masked."""

    #: Its name in the mask
    name: str
    #: One of these is in every text that the rule can match; empty: the rule is always run
    triggers: tuple[str, ...]
    #: What to mask: the group that matched if there is one, else the whole match
    pattern: re.Pattern[str]
    #: A last word on what is to be masked, such as a checksum
    check: Callable[[str], bool] | None = None


# Letters of a trigger must not be found in ids by chance: those are 26 of 0-9 and a-z in every event.
def _rule(name: str, triggers: str, pattern: str, check: Callable[[str], bool] | None = None) -> Rule:
    # ASCII: a Chinese character beside a number is no letter of it.
    return Rule(
        name, tuple(trigger.replace("<sp>", " ") for trigger in triggers.split()), re.compile(pattern, re.ASCII), check
    )


_START = r"(?<![A-Za-z0-9])"
_END = r"(?![A-Za-z0-9])"

#: Keys that hold a pass phrase, whatever it looks like.
_PASS = r"passw(?:or)?d|passphrase|pwd|密码|口令"
#: Keys that hold a secret if the value looks like one.
_KEY = (
    r"secret|token|api[_-]?key|(?:access|secret|private|signing|encryption|account|subscription|auth|master)[_-]?key|"
    r"credentials?|authorization|密钥|令牌"
)
_PASS_KEY = re.compile(rf"(?i).*(?:{_PASS})")
_SECRET_KEY = re.compile(rf"(?i).*(?:{_KEY})")
#: Keys that end like one and aren't: places in a list of pages.
CURSOR = re.compile(r"(?i)(?:page|next|continu(?:e|ation)|sync|cursor|prev(?:ious)?)[_-]?token$")
#: Values that say there is no secret here.
_PLACEHOLDER = re.compile(
    r"(?is)\s*(?:|none|null|nil|true|false|undefined|required|optional|redacted|string|str|\*+|x+|\.+|<[^>]*>|"
    r"\$?\{.*\}|\$\(.*\)|\$\w+|%\w+%|\[masked:.*|"
    r"(?:your|my)[_ -].*|(?:os|process|request|self|config|settings|args)\.[a-z].*)\s*"
)


def is_secret_value(key: str, value: str) -> bool:
    """Whether a value under this key is a secret, whole.

    >>> is_secret_value("db_password", "letmein"), is_secret_value("token", "Berlin")
    (True, False)
    """
    key = key[-80:]
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value):
        return False
    if _PASS_KEY.fullmatch(key):
        return True
    return _SECRET_KEY.fullmatch(key) is not None and not CURSOR.search(key) and _looks_secret(value)


def _has_digit(text: str) -> bool:
    return any(c.isdigit() for c in text)


def _looks_secret(text: str) -> bool:
    """Whether what follows `token=` is a value, not prose."""
    if _PLACEHOLDER.fullmatch(text):
        return False
    word = text.split(" ", 1)[-1] if text.lower().startswith(("bearer ", "basic ", "token ")) else text
    return " " not in word and (len(word) >= 20 or (len(word) >= 6 and not word.isalpha() and not word.isdigit()))


def _is_value(text: str) -> bool:
    """Whether what follows `password=` is a value, not prose."""
    return not _PLACEHOLDER.fullmatch(text) and not text.isalpha()


def _no_placeholder(text: str) -> bool:
    return not _PLACEHOLDER.fullmatch(text)


def _luhn(text: str) -> bool:
    """Check the last digit of a card's number (ISO/IEC 7812-1)."""
    digits = [int(c) for c in text if c.isdigit()]
    if len(set(digits)) == 1:
        return False
    doubled = [d if i % 2 == 0 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _chinese_id(text: str) -> bool:
    """Check the last character of a Chinese resident id (GB 11643)."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(c) * weight for c, weight in zip(text, weights, strict=False))
    return "10X98765432"[total % 11] == text[-1].upper()


def _iban(text: str) -> bool:
    """Check the digits of a bank account's number (ISO 13616)."""
    packed = text.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in packed[4:] + packed[:4])) % 97 == 1


# `key = "value"`, `key: value`, `key：value`; quoted values end at their quote, others at a space or separator.
_SET = (
    r"[\"']?\s{0,3}(?::=|=>|=|:|：)\s{0,3}"
    r"(?:\"(?P<a>(?:[^\"\\]|\\.){1,4000})\"|'(?P<b>(?:[^'\\]|\\.){1,4000})'|(?P<c>[^\s\"'\\,;&<>{}\[\]()，。；]{4,4000}))"
)
_PASS_TRIGGERS = "assw ASSW assW assph assPh ASSPH pwd\" pwd' pwd= pwd: pwd： pwd<sp> Pwd PWD 密码 口令"
_KEY_TRIGGERS = (
    "ecret ECRET oken OKEN api_k apiK apik api-k ApiK API_K API-K Api-K API_k Api_k APIK APIk ss_k ssK esskey ss-k "
    "SS_K et_k etK et_K et-k ET_K te_k teK te-k TE_K ng_k ngK ng-k NG_K on_k onK on-k ON_K nt_k ntK nt-k NT_K th_k thK "
    "TH_K er_k erK ER_K redential REDENTIAL uthoriz UTHORIZ 密钥 令牌"
)

#: API keys, tokens, private keys, connection strings.
SECRETS: tuple[Rule, ...] = (
    _rule(
        "private_key",
        "PRIVATE",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\\+[nrt]|[A-Za-z0-9+/=\s:,.-])*",
    ),
    _rule("aws_key", "AKIA ASIA ABIA ACCA", rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}"),
    _rule("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_START}gh[pousr]_[A-Za-z0-9]{{36,255}}"),
    _rule("github_token", "github_pat_", rf"{_START}github_pat_[A-Za-z0-9_]{{22,255}}"),
    _rule(
        "gitlab_token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft-",
        rf"{_START}gl(?:pat|dt|rt|ptt|cbt|soat|ft)-[\w-]{{20,255}}",
    ),
    _rule(
        "slack_token",
        "xoxa xoxb xoxe xoxo xoxp xoxr xoxs xapp-",
        rf"{_START}(?:xox[abeoprs]|xapp)[.-][A-Za-z0-9.-]{{10,255}}",
    ),
    _rule(
        "slack_webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<a>[A-Za-z0-9/_+-]{20,255})",
    ),
    _rule("api_key", "sk-", rf"{_START}sk-[A-Za-z0-9_-]{{20,255}}", _has_digit),
    _rule("google_key", "AIza", rf"{_START}AIza[\w-]{{35}}"),
    _rule("google_token", "ya29. GOCSPX-", rf"{_START}(?:ya29\.|GOCSPX-)[\w-]{{20,1000}}"),
    _rule("azure_secret", "Q~", rf"{_START}[\w.~-]{{3}}\dQ~[\w.~-]{{31,34}}"),
    _rule(
        "azure_key",
        "AccountKey= SharedAccessKey= sig=",
        r"(?:AccountKey=|SharedAccessKey=|[?&;]sig=)(?P<a>[A-Za-z0-9+/%]{30,500}=*)",
    ),
    _rule("stripe_key", "k_live_ k_test_ whsec_", rf"{_START}(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{{10,255}}"),
    _rule("huggingface_token", "hf_", rf"{_START}hf_[A-Za-z0-9]{{30,255}}"),
    _rule("npm_token", "npm_", rf"{_START}npm_[A-Za-z0-9]{{36}}"),
    _rule("pypi_token", "pypi-", rf"{_START}pypi-[\w-]{{50,1000}}"),
    _rule("sendgrid_key", "SG.", rf"{_START}SG\.[\w-]{{16,32}}\.[\w-]{{16,64}}"),
    _rule("telegram_token", ":AA", rf"{_START}\d{{8,10}}:AA[\w-]{{32,34}}"),
    _rule("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _rule("databricks_token", "dapi", rf"{_START}dapi[a-f0-9]{{32}}"),
    _rule("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    _rule("vault_token", "hvs. hvb. hvr.", rf"{_START}hv[sbr]\.[\w-]{{24,255}}"),
    _rule(
        "api_key",
        "gsk_ pplx- r8_ xai- tvly- figd_ ntn_ lin_api_ pscale_ glsa_ glc_ NRAK- PMAK- ATATT3 dckr_pat_",
        rf"{_START}(?:gsk_|pplx-|r8_|xai-|tvly-|figd_|ntn_|lin_api_|pscale_(?:tkn|pw)_|glsa_|glc_|NRAK-|PMAK-|"
        r"ATATT3|dckr_pat_)[\w=.-]{20,500}",
        _has_digit,
    ),
    _rule("age_key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _rule("jwt", "eyJ", rf"{_START}eyJ[\w-]{{8,8000}}\.[\w-]{{8,8000}}(?:\.[\w-]{{0,8000}}){{1,3}}"),
    _rule(
        "connection_string",
        "://",
        r"[A-Za-z0-9+.-]://[^\s:/@\"'\\<>?#]{0,100}:(?P<a>[^\s/\"'\\<>?#]{1,200})@",
        _no_placeholder,
    ),
    _rule(
        "authorization",
        "earer asic EARER ASIC",
        r"(?i:\b(?:bearer|basic)\s{1,3})(?P<a>[A-Za-z0-9+/_.~=-]{16,8000})",
        _has_digit,
    ),
    _rule(
        "password",
        "-u --user",
        r"(?:\s-u|--user)[ =]?[\"']?[^\s:\"'\\]{1,100}:(?P<a>[^\s\"'\\]{4,200})",
        _no_placeholder,
    ),
    _rule("password", _PASS_TRIGGERS, rf"(?i:{_PASS}){_SET}", _is_value),
    _rule("secret", _KEY_TRIGGERS, rf"(?i:{_KEY}){_SET}", _looks_secret),
    _rule(
        "password",
        _PASS_TRIGGERS + " oken ecret api-k pi_k",
        r"--[\w-]{0,40}(?:passw(?:or)?d|passphrase|token|secret|"
        r"api[-_]key) {1,3}(?P<a>[^\s\"'\\-][^\s\"'\\]{3,4000})",
        _is_value,
    ),
)

#: E-mail addresses, phone numbers, national ids, cards, bank accounts.
PERSONAL: tuple[Rule, ...] = (
    _rule("email", "@", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}"),
    _rule(
        "national_id",
        "",
        r"(?<![0-9A-Za-z])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[0-9Xx](?![0-9A-Za-z])",
        _chinese_id,
    ),
    _rule("national_id", "", r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
    _rule("iban", "", r"(?<![0-9A-Za-z])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![0-9A-Za-z])", _iban),
    _rule("card", "", r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])", _luhn),
    _rule("phone", "", r"(?<![\w+])\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){5,12}(?!\w)"),
    _rule("phone", "", r"(?<![\w.-])1[3-9]\d{9}(?![\w-])"),
    _rule("phone", "", r"(?<![\w.-])(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])"),
)
