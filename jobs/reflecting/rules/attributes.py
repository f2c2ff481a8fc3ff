"""Names of what a fact is about, the same in both languages, and what may stand as their value."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple


class Attribute(NamedTuple):
    """What is known of a common attribute."""

    #: Its name in the column `attribute`
    name: str
    #: Words that mean it, English and Chinese, matched whole
    words: tuple[str, ...]
    #: A value must match this
    value: str = r"\S"
    #: The part of what was said that is the value; empty: all of it
    pick: str = ""
    #: Whether one person can have several at once, so that a new value does not end an old one
    many: bool = False
    importance: float = 0.6


_NUMBER = r"\d|[一二三四五六七八九十百千万两]|hundred|thousand|million"

COMMON: tuple[Attribute, ...] = (
    Attribute(
        "name",
        ("name", "full name", "first name", "real name", "名字", "姓名", "全名", "大名"),
        r"^[^\W\d]",
        importance=0.8,
    ),
    Attribute("nickname", ("nickname", "preferred name", "昵称", "外号", "小名")),
    Attribute(
        "budget", ("budget", "price limit", "spending limit", "预算", "预算上限", "价格上限"), _NUMBER, importance=0.8
    ),
    Attribute(
        "address",
        (
            "address",
            "home address",
            "delivery address",
            "shipping address",
            "mailing address",
            "地址",
            "住址",
            "家庭地址",
            "收货地址",
            "邮寄地址",
            "送货地址",
        ),
        importance=0.8,
    ),
    Attribute(
        "email",
        (
            "email",
            "e-mail",
            "mail",
            "email address",
            "e-mail address",
            "邮箱",
            "电子邮箱",
            "邮箱地址",
            "邮件地址",
            "email地址",
            "电子邮件",
        ),
        r"@",
        r"[\w.+-]+@[\w.-]*\w",
        importance=0.7,
    ),
    Attribute(
        "phone",
        (
            "phone",
            "phone number",
            "mobile",
            "mobile number",
            "cell",
            "cell number",
            "telephone",
            "telephone number",
            "电话",
            "手机",
            "手机号",
            "手机号码",
            "电话号码",
            "电话号",
            "联系电话",
            "号码",
        ),
        r"\d{3}",
        r"\+?\d[\d\s().-]{3,20}\d",
        importance=0.7,
    ),
    Attribute(
        "allergy", ("allergy", "allergies", "food allergy", "过敏", "过敏原", "过敏源"), many=True, importance=0.95
    ),
    Attribute(
        "diet",
        ("diet", "dietary preference", "dietary restriction", "dietary requirement", "饮食", "饮食习惯", "忌口"),
        importance=0.8,
    ),
    Attribute("seat", ("seat", "seat preference", "preferred seat", "座位", "座位偏好"), importance=0.6),
    Attribute("size", ("size", "clothing size", "shirt size", "尺码", "衣服尺码", "尺寸")),
    Attribute("shoe_size", ("shoe size", "鞋码", "鞋号")),
    Attribute(
        "language", ("language", "preferred language", "native language", "mother tongue", "语言", "母语", "首选语言")
    ),
    Attribute("timezone", ("timezone", "time zone", "时区")),
    Attribute(
        "contact_channel",
        (
            "contact channel",
            "preferred contact",
            "preferred contact method",
            "contact method",
            "preferred channel",
            "联系方式",
            "首选联系方式",
            "联系渠道",
        ),
        importance=0.8,
    ),
    Attribute(
        "city", ("city", "hometown", "town", "home town", "城市", "所在城市", "老家", "家乡", "籍贯"), importance=0.7
    ),
    Attribute(
        "birthday",
        ("birthday", "date of birth", "birth date", "dob", "生日", "出生日期"),
        r"\d|[A-Z]|月",
        importance=0.7,
    ),
    Attribute("age", ("age", "年龄", "岁数"), _NUMBER),
    Attribute("job", ("job", "profession", "occupation", "job title", "职业", "工作", "职位", "岗位"), importance=0.7),
    Attribute(
        "employer",
        ("employer", "company", "workplace", "公司", "单位", "公司名称", "公司名", "雇主", "单位名称"),
        importance=0.6,
    ),
    Attribute(
        "user_id",
        (
            "user id",
            "userid",
            "username",
            "user name",
            "account id",
            "customer id",
            "member id",
            "membership number",
            "frequent flyer number",
            "loyalty number",
            "用户名",
            "用户id",
            "账号",
            "会员号",
            "会员编号",
            "客户编号",
        ),
        r"\w{3}",
        r"^(?:[\w.@#-]*[\d_][\w.@#-]*\w|[\w.-]+$)",
        importance=0.3,
    ),
    Attribute("payment_method", ("payment method", "preferred payment method", "支付方式", "付款方式"), importance=0.6),
    Attribute("height", ("height", "身高"), r"\d"),
    Attribute("weight", ("weight", "体重"), r"\d"),
    Attribute("hobby", ("hobby", "hobbies", "interest", "interests", "爱好", "兴趣", "兴趣爱好"), many=True),
    Attribute("education", ("education", "degree", "major", "学历", "专业", "学位")),
    Attribute("deadline", ("deadline", "due date", "截止日期", "截止时间", "期限")),
    Attribute("goal", ("goal", "main goal", "target", "目标")),
)

_BY_WORD = {word: attribute for attribute in COMMON for word in attribute.words}
_BY_NAME = {attribute.name: attribute for attribute in COMMON}

#: What is said of these holds for one task or one moment, and is no fact about a person (R7: stable?).
_PASSING = re.compile(
    r"\b(?:flight|order|parcel|package|question|problem|issue|request|concern|point|guess|bad|mistake|fault|booking|"
    r"reservation|ticket|case|trip|claim|query|refund|return|delivery|shipment|item|message|reply|answer|idea|thought|"
    r"understanding|apologies|intention|plan|dates?|departure|confirmation|code|error|file|script|current|screen|"
    r"internet|connection|app|turn|time|day|mood|luggage|bags?|option|focus|bandwidth|energy|mind|brain|head|"
    r"priority|vision|tweak|data|session|sessions|take|choice|response|last|previous|next)\b"
    r"|航班|订单|包裹|快递|问题|请求|意思|预订|机票|车票|退款|退货|物流|想法|错误|代码|屏幕|网络|心情|行李|消息|回复|"
    r"行程|确认码|验证码|刚才|刚刚|路过|今天|昨天|明天|上次|这次|下次"
)
#: These are never kept, whoever says them.
_SECRET = re.compile(
    r"pass\s?word|passcode|passphrase|\bpin\b|\bcvv2?\b|\bcvc\b|\bssn\b|social security|api[ _-]?key|secret|token|"
    r"private key|credential|(?:credit|debit|bank)[ -]?card|card number|account number|iban|passport|"
    r"driver'?s? licen[cs]e|"
    r"密码|口令|密钥|令牌|私钥|验证码|身份证|银行卡|信用卡|卡号|护照|驾照|社保",
    re.I,
)
_LEADING = re.compile(
    r"^(?:new|old|current|own|actual|main|personal|total|preferred|usual|新的?|旧的?|当前的?|现在的?|个人的?|主要的?|"
    r"总)\s*",
    re.I,
)


def attribute_of(words: str) -> Attribute | None:
    """The attribute that a noun phrase names: a common one in either language, else one made of its words.

    None when it names something of the moment or nothing that a name can be made of.

    >>> attribute_of("预算").name, attribute_of("new e-mail address").name, attribute_of("favourite colour").name
    ('budget', 'email', 'favourite_colour')
    >>> attribute_of("flight")
    """
    words = " ".join(unicodedata.normalize("NFKC", words).strip().casefold().split())
    for candidate in (words, _LEADING.sub("", words)):
        if candidate in _BY_WORD:
            return _BY_WORD[candidate]
    if _PASSING.search(words) or words.endswith((" is", " are", "的")):
        return None
    for separator in ("'s ", "’s ", "的"):  # wife's name, 上司的邮箱: whose it is stays in the name
        owner, found, what = words.rpartition(separator)
        if found and (inner := attribute_of(what)) is not None:
            return inner._replace(name=f"{_slug(owner)}_{inner.name}", importance=0.5)
    name = _slug(words)
    return Attribute(name, (), importance=0.5) if 2 <= len(name) <= 40 else None


def common(name: str) -> Attribute:
    """A common attribute by its name. Raises `KeyError` if there is none."""
    return _BY_NAME[name]


def is_known(name: str) -> bool:
    """Whether a name is that of a common attribute.

    >>> is_known("budget"), is_known("dog")
    (True, False)
    """
    return name in _BY_NAME


def holds_many(attribute: str) -> bool:
    """Whether several values of an attribute hold at once, so that a new one supersedes none.

    >>> holds_many("allergy"), holds_many("budget")
    (True, False)
    """
    known = _BY_NAME.get(attribute)
    return known is not None and known.many


def is_secret(text: str) -> bool:
    """Whether a text names a secret or an official number, which is never kept as a fact (N11).

    >>> is_secret("my password"), is_secret("我的密码"), is_secret("my seat")
    (True, True, False)
    """
    return bool(_SECRET.search(text))


def is_passing(text: str) -> bool:
    """Whether a noun phrase names something of the moment, such as an order."""
    return bool(_PASSING.search(text))


def _slug(words: str) -> str:
    return "_".join(re.findall(r"[a-z0-9\u00c0-\u024f]+|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]+", words.casefold()))
