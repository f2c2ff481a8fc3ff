"""The words that carry what a text says, and whether two texts use the same ones: in the same order, moved, or others.

A vector hardly moves when one word of a sentence does. So texts count as saying the same only if, apart from words that
carry nothing (politeness, particles, articles) and common synonyms, they are made of the same words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

#: The same words in the "same" order, one part "turned" to the other end, "moved" otherwise, or parts "crossed"; the
#: words of one "within" those of the other, in order; or "other" words
Order = Literal["same", "turned", "moved", "crossed", "within", "other"]

#: Chinese words that carry nothing: the longest is taken first.
_CHINESE_FILLERS = str.split(
    "请问一下 请问 请教 谁知道 有谁知道 大家知道 有人知道 你知道 谁能告诉我 告诉我 想知道 我想问 求告知 "
    "求解答 求解 求大神 各位大神 大神 "
    "各位 亲们 亲 大侠 高手 急求 跪求 谢谢啦 谢谢了 谢谢大家 谢谢各位 谢谢 谢了 非常感谢 感谢 多谢 感激不尽 "
    "您好 你好 急 在线等 有人知道 有没有人知道 谁能告诉我 有谁能告诉我 请告知 求帮助 辛苦了 帮忙 帮我 麻烦 拜托 "
    "一下子 一下 到底 究竟 "
    "其实 就是说 也就是 那么 这么 比较 一般来说 一般 相关 有关 关于 的话 之类 一共 总共 现在 目前 的时候 时候 "
    "之中 里面 里边 "
    "当中 进行 获得 大约 大概 以及 并且 而且 哈 啊 呀 呢 吗 吧 嘛 啦 哦 噢 喔 耶 哎 唉 的 地 得 了 着 是 在 "
    "有 个 之 所 里 中 于 为 还 就 都 也 又 "
    "把 将 些 这 那 种 才 要 么"
)
#: Chinese words that say the same, first the one that stands for all.
_CHINESE_SAME = (
    "怎么 怎么样才能 怎样才能 如何才能 怎么才能 怎么样能 怎样能 怎么能 怎么可以 怎样可以 如何 怎样 怎么样 咋 "
    "应该怎么 该怎么 该如何 应该如何 应该怎样 该怎样",
    "怎么办 怎么弄 怎么搞 咋办 咋整 如何处理 怎么处理 怎么解决 如何解决 该怎么办 应该怎么办 要怎么办 如何是好",
    "怎么办理 如何办理 怎样办理",
    "好吗 好不好",
    "为什么 为何 为啥 怎么回事 什么原因",
    "什么 啥 哪些 哪种 哪个 那个 那些 哪一个 什么样 什么样的 哪款 有没有什么 哪家 哪部 哪位 哪只 哪本 哪首 哪张 哪条 "
    "哪项 哪类 哪间 哪所 哪台 哪一家 哪一部 哪一款 哪一种 哪一位 哪一项 哪一本 哪几个 哪几种",
    "哪里 哪儿 哪 什么地方 何处 在哪 在哪儿 在哪里",
    "哪年 哪一年 何年",
    "何时 什么时候 啥时候 几时 哪天 什么时间",
    "多少 几多",
    "多久 多长时间 多少时间",
    "是否 能不能 能否 可不可以 可否 是不是 有没有 有木有 会不会 要不要 可以不 行不行",
    "我 我们 咱们 咱 俺 本人",
    "你 您 你们",
    "他 他们 她们 她 它",
    "品牌 牌子",
    "修改 更改 改 变更 更换",
    "味道 气味",
    "赚钱 挣钱",
    "价格 价钱 多少钱 多钱 什么价格",
    "购买 买 购",
    "电话 电话号码 号码",
    "删除 删掉 删",
    "取消 解除",
    "消息 信息",
    "手机 手机号",
    "一样 相同 一致 同样",
    "区别 不同 差别 差异",
    "喜欢 喜爱",
    "居住 住",
    "父母 爸妈 爸爸妈妈",
    "妈妈 母亲", "爸爸 父亲", "妻子 老婆", "丈夫 老公", "小孩 孩子 小朋友", "男人 男性 男士", "女人 女性 女士",
    "早餐 早饭", "午餐 午饭", "晚餐 晚饭",
    "今天 今日", "明天 明日", "昨天 昨日",
    "周一 星期一 礼拜一", "周二 星期二 礼拜二", "周三 星期三 礼拜三", "周四 星期四 礼拜四",
    "周五 星期五 礼拜五", "周六 星期六 礼拜六", "周日 周天 星期日 星期天 礼拜天",
    "和 跟 与 同 及",
    "不能 无法 不了 没法",
    "没 没有",
    "能 可以 能够 可",
    "可能", "可爱", "可怜", "可惜", "可是", "多么", "要么",
    "必须 应该 应当 应 务必 需要",
    "应用", "反应", "响应", "应对", "应付", "适应",
    "用 使用",
    "总 总是 老是",
    "经常 常常 时常",
    "取 起",
    "帐 账",
    "真假 真伪",
    "辨别 分辨 鉴别 识别",
    "重试 再试",
    "超时 time-out timeout",
    "接口 api",
    "名字 名称 姓名",
    "办理 办",
    "举行 举办 召开",
    "方法 办法 方式",
    "看 观看",
    "最 最为",
    "最后 最终",
    "登录 登陆",
    "截图 截屏",
    "查询 查找 查", "检查", "调查",
    "去除 去掉 除去 除掉",
    "可靠 靠谱",
    "电饭锅 电饭煲",
    "驾驶证 驾照",
    "播出 开播 播放 播",
    "网游 网络游戏",
    "图片 图",
    "地图", "截图",
    "照片 相片",
    "歌曲 歌",
    "书籍 书",
    "电脑 计算机",
    "治疗 医治 治",
    "眼泪 泪",
    "忘记 忘",
    "附近 周边 周围",
    "公司 企业",
    "医生 大夫",
    "自行车 单车",
    "土豆 马铃薯",
    "西红柿 番茄",
)  # fmt: skip
#: The same where a text asks: one who asks where to find something wants to be given it.
_CHINESE_SAME_ASKING = ("求 推荐 谁有 求推荐 推荐一下 介绍 寻找 找",)
#: Chinese words that make no difference where only one of two texts has them: in questions, and in statements.
_SOFT_QUESTION = frozenset(
    str.split(
        "能 会 是否 我 你 他 求 请 想 必须 该 上 去 一 说 使 最 更 太 很 挺 真 好 用 自己 已 已经 最近 最后 时 而 便 "
        "点 本 首 张 位 家 名 间 叫 什么 做 过 出 来 下 看 大家 哪里 几 条 只 部 款 效果 谁 儿 面 类 "
        "式 片 总 老 样 值 呗"
    )
)
_SOFT = frozenset(("我", "一", "求"))
_AT_THE_END = re.compile(r"(?:怎么样|怎样|好不好|咋样|好么|如何|怎么样好)(?=[啊呢呀了吗]*$)")
#: "Is it fun, or not?" asks what "is it fun?" does.
_OR_NOT = re.compile(r"(?<=[\u3400-\u9fff])[不没](?=\s*[?？])")
#: English words that carry nothing.
_ENGLISH_FILLERS = frozenset(
    str.split(
        "a an the this that these those is are was were be been being am do does did has have had having of and in on "
        "at for by to it its it's there here please kindly just really very quite so also too well then some any "
        "currently now actually basically simply that's who which as i'm i've he's she's they're user user's"
    )
)
#: English words that say the same, first the one that stands for all.
_ENGLISH_SAME = (
    "buy purchase purchased buys buying bought purchases",
    "begin start starts started begins began beginning starting",
    "big large",
    "child kid children kids",
    "email e-mail mail",
    "phone telephone",
    "picture photo photograph image",
    "couch sofa",
    "road street",
    "should must",
    "dont don't not cannot can't doesn't didn't isn't aren't wasn't won't",
    "wish want wants like likes enjoy enjoys prefer prefers love loves",
    "live reside lives resides living",
    "job work works working",
    "film movie movies films",
    "retry retries again",
    "timeout time-out timeouts",
    "error failure errors failures",
    "repair fix fixes fixed",
    "quick fast quickly rapid",
    "answer reply replies answers response responses",
    "reimburse refund refunds",
    "car automobile cars",
    "talk speak speaks talks speaking talking",
    "2 two", "3 three", "4 four", "5 five", "6 six", "7 seven", "8 eight", "9 nine", "10 ten",
)  # fmt: skip
#: Words that say which way a relation goes: they keep their place when an order is compared.
_RELATIONS = frozenset(str.split("from to than over into onto with by at before after 到 给 比 向 从 被 把 让 将 对"))
#: What two things are compared by, in a question: which of them stands first says nothing.
_COMPARES = re.compile(r"哪|那个|区别|不同|差[别异]|关系|一样|相同|同时|一起|一家")
#: Question words that may stand anywhere in a Chinese sentence.
_FLOATING = ("怎么", "为什么", "何时", "是否", "怎么办")


def _table(groups: Sequence[str]) -> dict[str, str]:
    table: dict[str, str] = {}
    for group in groups:
        first, *others = group.split()
        for word in (first, *others):
            table.setdefault(word, first)
    return table


_CANON = _table(_CHINESE_SAME)
_CANON_ASKING = _CANON | _table(_CHINESE_SAME_ASKING)
_ENGLISH_CANON = _table(_ENGLISH_SAME)
_KEPT = frozenset(str.split("到 给 比 向 从 被 把 让 对"))
_KNOWN = {*_CANON_ASKING, *_CHINESE_FILLERS, *_KEPT, *(word for word in _SOFT_QUESTION if len(word) > 1)}
_CHINESE = re.compile("|".join(sorted(_KNOWN, key=len, reverse=True)))
_NOISE = re.compile(r"[\s\W_]+", re.UNICODE)
_FILLERS = frozenset(_CHINESE_FILLERS)
_ASKS = re.compile(
    r"[?？吗呢么]|什么|怎|如何|哪|谁|多少|几|为何|是否|能否|可否|(.)不\1|有没有|^求|求[^，。]{0,12}$|\?", re.I
)
_TOKEN = re.compile(
    r"[a-z0-9\u00c0-\u024f]+(?:[.'@_/:-][a-z0-9\u00c0-\u024f]+)*|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\s]+"
)


def normal_text(text: str) -> str:
    """A text as it is compared: one width, one case, no spaces and no punctuation, signs of numbers kept.

    >>> normal_text("Ｂｕｄｇｅｔ: 8,000 €!") == normal_text("budget 8000€")
    True
    >>> normal_text("-5") == normal_text("5"), normal_text("Costs 1.5.") == normal_text("costs 1.5")
    (False, True)
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = re.sub(r"(?<=\d)[,_](?=\d{3})|\.(?!\w)", "", folded)
    return _NOISE.sub(lambda match: _kept(match.group()), folded)


def _kept(noise: str) -> str:
    return "".join(sign for sign in noise if sign in "-+%.<>=≠~" or unicodedata.category(sign) in ("Sc", "So"))


@dataclass(frozen=True)
class Wording:
    """The words of one text that carry something."""

    #: In order; a Chinese character counts as a word unless it is part of one that is known
    words: tuple[str, ...]
    #: The same with the words that direct a relation, without those that may stand anywhere
    order: tuple[str, ...]


@dataclass(frozen=True)
class WordDifference:
    """How the words of two texts differ."""

    #: Words of the first that the second lacks
    left: tuple[str, ...]
    #: Words of the second that the first lacks
    right: tuple[str, ...]
    #: What that makes of them
    order: Order
    #: Share of the words that both have, of the text that has fewer
    shared: float
    #: Words of the text that has fewer
    count: int = 0


@lru_cache(maxsize=1 << 14)
def wording_of(text: str) -> Wording:
    """The words of a text that carry something.

    >>> wording_of("Please buy the large sofa").words
    ('buy', 'big', 'couch')
    >>> wording_of("请问如何更改会员名？").words == wording_of("会员名怎样修改").words
    False
    >>> sorted(wording_of("请问如何更改会员名？").words) == sorted(wording_of("会员名怎样修改").words)
    True
    """
    plain = _OR_NOT.sub(" ", unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    words: list[str] = []
    order: list[str] = []
    canon = _CANON_ASKING if _ASKS.search(plain) else _CANON
    for match in _TOKEN.finditer(plain):
        token = match.group()
        if "\u3040" <= token[0] <= "\ud7af":
            for word in _chinese(token, canon):
                if word not in _FILLERS or word in _KEPT:
                    if word not in _KEPT:
                        words.append(word)
                    if word not in _FLOATING:
                        order.append(word)
            continue
        word = _ENGLISH_CANON.get(token) or _CANON.get(token, token)
        if word in _RELATIONS:
            order.append(word)
        if word not in _ENGLISH_FILLERS:
            words.append(stem := _stem(word))
            if word not in _RELATIONS:
                order.append(stem)
    return Wording(tuple(words), tuple(order))


def _chinese(run: str, canon: Mapping[str, str]) -> list[str]:
    words: list[str] = []
    at = 0
    run = _AT_THE_END.sub("好吗", run)
    for match in _CHINESE.finditer(run):
        words += run[at : match.start()]
        word = match.group()
        words.append(canon.get(word, word))
        at = match.end()
    return words + list(run[at:])


def _stem(word: str) -> str:
    """A word without its commonest English endings."""
    if not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            stem = word.removesuffix(ending)
            if ending in ("ing", "ed") and len(stem) > 3 and stem[-1] == stem[-2]:
                stem = stem[:-1]
            return stem.rstrip("e") if len(stem) > 3 else stem
    return word.rstrip("e") if len(word) > 4 else word


def word_difference(first: str, second: str) -> WordDifference:
    """How the words of two texts differ.

    >>> word_difference("the dog chased the cat", "the cat chased the dog").order
    'crossed'
    >>> word_difference("on a timeout, retry", "retry on timeout").order
    'turned'
    """
    one, two = wording_of(first), wording_of(second)
    ours, theirs = Counter(one.words), Counter(two.words)
    left, right = ours - theirs, theirs - ours
    both_ask = bool(_ASKS.search(first) and _ASKS.search(second))
    soft = _SOFT_QUESTION if both_ask else _SOFT
    if not (left.keys() & soft and right.keys() & soft):
        left, right = (Counter({w: n for w, n in words.items() if w not in soft}) for words in (left, right))
    least = min(len(one.words), len(two.words))
    shared = (ours & theirs).total() / least if least else 0.0
    ordered = [tuple(word for word in wording.order if word not in soft) for wording in (one, two)]
    if left or right:
        order = "other" if left and right else _within(*ordered)
    elif both_ask and _COMPARES.search(first) and _COMPARES.search(second) and _compared(*ordered):
        order = "moved"
    else:
        order = _order_of(*ordered)
    return WordDifference(tuple(left.elements()), tuple(right.elements()), order, shared, least)


def _order_of(one: tuple[str, ...], two: tuple[str, ...]) -> Order:
    """How two orders of the same words differ."""
    if one == two:
        return "same"
    if _around(one, two):
        return "crossed"
    if len(one) == len(two) and any(one[cut:] + one[:cut] == two for cut in range(1, len(one))):
        return "turned"
    return "crossed" if _is_crossed(one, two) else "moved"


def _within(one: tuple[str, ...], two: tuple[str, ...]) -> Order:
    """Whether the shorter is the longer one with words left out."""
    few, many = sorted((one, two), key=len)
    rest = iter(many)
    return "within" if all(word in rest for word in few) else "other"


def _compared(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Whether the one has "A and B" where the other one has "B and A", and all else is in the same order."""
    if one.count("和") != 1 or two.count("和") != 1:
        return False
    here, there = one.index("和"), two.index("和")
    return any(
        one[here - left : here] == two[there + 1 : there + 1 + left]
        and one[here + 1 : here + 1 + right] == two[there - right : there]
        and one[: here - left] == two[: there - right]
        and one[here + 1 + right :] == two[there + 1 + left :]
        for left in range(1, here + 1)
        for right in range(1, there + 1)
    )


def _around(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Whether what stood left of a relation stands right of it in the other text, and the other way round."""
    for relation in _RELATIONS.intersection(one).intersection(two):
        if one.count(relation) == two.count(relation) == 1:
            here, there = one.index(relation), two.index(relation)
            if set(one[:here]) & set(two[there + 1 :]) and set(one[here + 1 :]) & set(two[:there]):
                return True
    return False


def _is_crossed(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Whether two parts changed places around something: "A likes B", "B likes A"."""
    while one and two and one[0] == two[0]:
        one, two = one[1:], two[1:]
    while one and two and one[-1] == two[-1]:
        one, two = one[:-1], two[:-1]
    size = len(one)
    if size != len(two):
        return False
    return any(
        one[:first] == two[size - first :]
        and one[size - last :] == two[:last]
        and one[first : size - last] == two[last : size - first]
        for first in range(1, size - 1)
        for last in range(1, size - first)
    )
