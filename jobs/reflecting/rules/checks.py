"""What is not kept, by rule: platitudes, instances, secrets, commands of others, lines too long (R3, N11)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..candidates import Candidate
from .attributes import is_secret
from .failures import commands
from .generalise import content_words, instance_in
from .lessons import fits

#: Words that make advice sound like some and say nothing.
_VAGUE = frozenset(
    str.split(
        "careful carefully check checks checking double-check verify ensure make sure mind attention pay "
        "stability api apis error errors handle handling handled properly proper correctly correct appropriately "
        "appropriate always try best more better good great important consider considering thoroughly thorough "
        "details detail quality issue issues problem problems robust robustly accurate accurately efficient "
        "efficiently effectively remember note aware avoid mistakes mistake work works task tasks user users "
        "agent tool tools call calls using use used result results input output data information possible "
        "potential relevant necessary needed required requirements understand follow following instructions step "
        "steps review think fails 注意 仔细 认真 小心 检查 确保 确认 稳定 稳定性 务必 谨慎 处理 正确 准确 合理 "
        "及时 完善 优化 提高 加强 重视 避免 错误 问题 接口 质量 细节"
    )
)
_VAGUE_CHINESE = re.compile("|".join(word for word in sorted(_VAGUE, key=len, reverse=True) if word >= "\u4e00"))
_CODE = re.compile(r"[A-Za-z]+(?:_[A-Za-z0-9]+)+|[a-z]+[A-Z]\w+|\w+\.\w{1,4}\b|[A-Z]{2,}-[A-Z]+|“[^”]{4,}”|`[^`]+`")
#: A key or token as such, wherever it stands.
_TOKEN = re.compile(
    r"\b(?:sk|pk|ghp|gho|xox[abp]|AKIA|AIza|eyJ)[-_]?[A-Za-z0-9_-]{12,}|-----BEGIN|\b[A-Fa-f0-9]{32,}\b"
)


def is_platitude(action: str, avoid: str = "") -> bool:
    """Whether advice names nothing that one could do: no tool, no argument, no three words that aren't vague.

    >>> is_platitude("be careful with API stability"), is_platitude("take order_id from find_orders")
    (True, False)
    >>> is_platitude("注意接口的稳定性"), is_platitude("先用邮编查到客户编号再取消订单")
    (True, False)
    """
    text = f"{action} {avoid}"
    if _CODE.search(text):
        return False
    words = [word for word in content_words(text) if word not in _VAGUE and not re.match(r"[\u4e00-\u9fff]", word)]
    han = _VAGUE_CHINESE.sub("", re.sub(r"[^\u4e00-\u9fff]|[的了地得在和与或要会能可以应该先再]", "", text))
    return len(words) + len(han) / 2 < 3


def holds_token(text: str) -> bool:
    """Whether a key or token stands in a text.

    >>> holds_token("use sk-abcdefghijklmnop1234"), holds_token("use the key")
    (True, False)
    """
    return bool(_TOKEN.search(text))


def refusal_reason(candidate: Candidate, names: Iterable[str] = ()) -> str:
    """Why a candidate is not kept; empty if it may be. The same checks serve every reflector.

    `names` are names that occur in the traces (people, places): none may stand in a lesson.
    """
    said = " ".join(
        (candidate.text, candidate.trigger, candidate.action, candidate.avoid, candidate.why, candidate.not_when)
    )
    if not candidate.text.strip():
        return "it says nothing"
    if (
        holds_token(said)
        or candidate.attribute == "secret"
        or (candidate.kind == "fact" and is_secret(candidate.attribute))
    ):
        return "it holds a secret"
    if not candidate.evidence:
        return "it rests on nothing: no event is quoted"
    if candidate.quality < 3:
        return "its quality is below 3"
    if candidate.kind != "experience":
        if candidate.said_by != "user":
            return f"a {candidate.kind} must come from the user's own words"
        return ""
    if not candidate.trigger or not (candidate.action or candidate.avoid):
        return "it does not say when, or not what to do"
    if not fits(candidate.text):
        return "it is too long to be put before an agent (60 words, or 100 characters in Chinese)"
    if commands(said):
        return "it repeats what reads like an instruction from a tool or a page"
    if is_platitude(candidate.action, candidate.avoid):
        return "it is a platitude: it names nothing that one could do"
    if what := instance_in(said, names):
        return f"it is an instance: it names {what}"
    return ""
