"""Words that exclude each other, and how a text stands to what it says: denied, hedged, over, asked; both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

#: Groups of words of which a thing is one at a time: group → member → English and Chinese words.
_GROUPS: dict[str, dict[str, str]] = {
    "taste": {
        "likes": "like likes liked love loves loved enjoy enjoys enjoyed prefer prefers fond favorite favourite "
        "喜欢 喜爱 热爱 偏爱 钟爱 爱吃 爱喝 爱看 爱听",
        "dislikes": "dislike dislikes disliked hate hates hated loathe loathes 讨厌 反感 厌恶",
    },
    "change": {
        "up": "increase increases increased raise raises raised rise rises rose grow grew gain "
        "gained 增加 提高 上涨 上升 "
        "升高 涨价 增长 提升 调高 增大 变大 变高",
        "down": "decrease decreases decreased lower lowered reduce reduces reduced drop drops dropped fall fell "
        "shrink lose lost 减少 降低 下降 下跌 跌 降价 调低 缩小 变小 变低",
    },
    "more": {"more": "more 更多 多于 超过 大于 高于", "less": "less fewer 更少 少于 不到 小于 低于 不足"},
    "order": {"before": "before prior 之前 以前", "after": "after 之后 以后"},
    "switch": {
        "on": "enable enables enabled activate activated 启用 开启 打开 激活 开通",
        "off": "disable disables disabled deactivate deactivated 禁用 关闭 停用 注销",
    },
    "door": {"open": "open opens opened", "close": "close closes closed shut"},
    "begin": {
        "start": "start starts started begin begins began 开始",
        "end": "stop stops stopped end ends ended finish finished quit 停止 结束 终止 戒",
    },
    "verdict": {
        "allow": "allow allows allowed permit permits permitted accept accepts accepted approve "
        "approved 允许 接受 同意 批准",
        "forbid": "forbid forbids forbidden prohibit prohibited reject rejects rejected refuse refuses refused deny "
        "denied 禁止 拒绝 反对 否决",
    },
    "trade": {"buy": "buy buys bought purchase purchased 购买 买", "sell": "sell sells sold 出售 卖 卖掉"},
    "move": {
        "in": "arrive arrives arrived enter enters entered upload uploads login import imports "
        "到达 进入 上传 登录 导入 "
        "存入 转入 充值",
        "out": "depart departs departed exit exits exited download downloads logout export exports 离开 退出 下载 导出 "
        "取出 转出 提现",
    },
    "win": {"win": "win wins won 赢 获胜 胜利", "lose": "lose loses lost 输 失败"},
    "result": {"success": "success succeeded succeeds passed passes 成功", "failure": "failure failed fails fail 失败"},
    "frequency": {
        "always": "always 总是 永远 一直 始终",
        "often": "often usually frequently 经常 常常 通常",
        "sometimes": "sometimes occasionally 有时 偶尔",
        "rarely": "rarely seldom hardly 很少 难得",
        "never": "never 从不 从来不 从来没",
    },
    "scope": {
        "all": "all every everything everyone 所有 全部 全都",
        "some": "some several 一些 部分 某些",
        "only": "only solely exclusively 只 仅 唯一",
    },
    "with": {"with": "with including", "without": "without excluding except"},
    "side": {"left": "左 左边 左侧", "right": "右 右边 右侧"},
    "level": {"high": "high higher highest 高 最高", "low": "low lower lowest 低 最低"},
    "size": {
        "big": "big bigger large larger largest 大 最大",
        "small": "small smaller smallest little tiny 小 最小",
    },
    "length": {"long": "long longer longest 长 最长", "short": "short shorter shortest 短 最短"},
    "heat": {"hot": "hot hotter warm 热", "cold": "cold colder cool 冷"},
    "pace": {"fast": "fast faster quick quickly 快 迅速", "slow": "slow slower slowly 慢 缓慢"},
    "time": {"early": "early earlier earliest 早 提前", "late": "late later latest 晚 推迟 延后"},
    "price": {"cheap": "cheap cheaper 便宜", "dear": "expensive costly 贵 昂贵"},
    "health": {"good": "good better best healthy 好 健康 优点", "bad": "bad worse worst sick 坏 差 糟糕 缺点 坏处"},
    "ease": {"easy": "easy easier simple 容易 简单", "hard": "hard harder difficult 难 困难"},
    "place": {
        "inside": "inside indoor indoors 里面 室内 内部",
        "outside": "outside outdoor outdoors 外面 室外 户外",
        "above": "above upstairs 上面 楼上",
        "below": "below under beneath downstairs 下面 楼下",
    },
    "compass": {
        "north": "north northern 北 北方", "south": "south southern 南 南方",
        "east": "east eastern 东 东方", "west": "west western 西 西方",
    },
    "sex": {
        "male": "man men boy boys male males guy guys 男人 男生 男孩 男子 男性 男",
        "female": "woman women girl girls female females lady ladies 女人 女生 女孩 女子 女性 女",
    },
    "kin": {
        "mother": "mother mom mum mama 妈妈 母亲 妈", "father": "father dad papa 爸爸 父亲 爸",
        "sister": "sister sisters 姐姐 妹妹 姐妹", "brother": "brother brothers 哥哥 弟弟 兄弟",
        "son": "son sons 儿子", "daughter": "daughter daughters 女儿",
        "wife": "wife girlfriend fiancee 妻子 老婆 女朋友 女友",
        "husband": "husband boyfriend fiance 丈夫 老公 男朋友 男友",
        "uncle": "uncle 叔叔 舅舅 伯伯", "aunt": "aunt 阿姨 姑姑 姨妈",
        "grandfather": "grandfather grandpa 爷爷 外公", "grandmother": "grandmother grandma 奶奶 外婆",
        "boss": "boss manager supervisor 上司 老板 领导",
        "colleague": "colleague coworker 同事",
        "friend": "friend 朋友",
        "neighbour": "neighbor neighbour 邻居",
        "child": "child children kid kids 孩子 小孩",
        "cousin": "cousin 表哥 表弟 堂哥 堂弟", "girl cousin": "表姐 表妹 堂姐 堂妹",
        "nephew": "nephew 侄子 外甥", "niece": "niece 侄女 外甥女",
    },
    "color": {
        "red": "red 红色 红",
        "blue": "blue 蓝色 蓝",
        "green": "green 绿色 绿",
        "yellow": "yellow 黄色",
        "black": "black 黑色 黑",
        "white": "white 白色",
        "brown": "brown 棕色",
        "orange": "orange 橙色",
        "purple": "purple 紫色 紫",
        "pink": "pink 粉色 粉红",
        "gray": "gray grey 灰色",
    },
    "animal": {
        "dog": "dog dogs puppy puppies 狗", "cat": "cat cats kitten kittens 猫", "horse": "horse horses 马",
        "bird": "bird birds 鸟", "fish": "fish fishes 鱼", "cow": "cow cows 牛", "pig": "pig pigs 猪",
    },
    "day": {
        "mon": "monday mondays 周一 星期一 礼拜一", "tue": "tuesday tuesdays 周二 星期二 礼拜二",
        "wed": "wednesday wednesdays 周三 星期三 礼拜三", "thu": "thursday thursdays 周四 星期四 礼拜四",
        "fri": "friday fridays 周五 星期五 礼拜五", "sat": "saturday saturdays 周六 星期六 礼拜六",
        "sun": "sunday sundays 周日 周天 星期日 星期天 礼拜天",
        "today": "today 今天 今日",
        "tomorrow": "tomorrow 明天 明日",
        "yesterday": "yesterday 昨天 昨日",
        "after": "后天",
        "weekend": "weekend weekends 周末", "weekday": "weekday weekdays 工作日",
    },
    "part of day": {
        "morning": "morning mornings 早上 早晨 上午 清晨",
        "noon": "noon 中午",
        "afternoon": "afternoon afternoons 下午",
        "evening": "evening evenings 傍晚", "night": "night nights tonight 晚上 夜里 夜间 今晚",
    },
    "span": {
        "this": "this-week this-month this-year 本周 这周 本月 这个月 今年",
        "next": "next-week next-month next-year 下周 下个月 下月 明年",
        "last": "last-week last-month last-year 上周 上个月 上月 去年", "before": "前年",
    },
    "season": {
        "spring": "spring 春天 春季", "summer": "summer 夏天 夏季",
        "autumn": "autumn 秋天 秋季", "winter": "winter 冬天 冬季",
    },
    "meal": {"breakfast": "breakfast 早餐 早饭", "lunch": "lunch 午餐 午饭", "dinner": "dinner supper 晚餐 晚饭"},
    "channel": {
        "email": "email e-mail emails e-mails 邮件 电邮 邮箱", "phone": "phone telephone phonecall calls 电话 来电",
        "sms": "sms 短信", "wechat": "wechat 微信", "qq": "qq", "whatsapp": "whatsapp", "slack": "slack",
    },
    "seat": {"window": "靠窗", "aisle": "aisle 靠过道 过道"},
    "polar": {"true": "true 真 真的", "false": "false 假 假的"},
    "currency": {"usd": "美元 美金", "eur": "欧元", "cny": "人民币", "gbp": "英镑", "yen": "日元"},
}  # fmt: skip

_MEMBERS: dict[str, tuple[str, str]] = {}
for _group, _members in _GROUPS.items():
    for _member, _words in _members.items():
        for _word in _words.split():
            _MEMBERS.setdefault(
                _word.replace("-", " ") if _word.startswith(("this", "next", "last")) else _word, (_group, _member)
            )
#: Every word of a group: such a word is no name.
WORDS = frozenset(_MEMBERS)
_LATIN = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(sorted((re.escape(word) for word in WORDS if word.isascii()), key=len, reverse=True))
    + r")(?![\w-])",
    re.I,
)
_HAN = re.compile("|".join(sorted((word for word in WORDS if not word.isascii()), key=len, reverse=True)))
#: Words in which a word of a group means something else.
_NOT_MEANT = re.compile(
    r"多少|大小|长短|高低|早晚|大家|大概|大约|大学|大小|小时|小学|小姐|小说|小区|小心|小米|小孩|长度|高兴|高中|高速|高考|"
    r"好像|好友|好久|好多|好处|你好|您好|只好|最好|正好|刚好|还好|好的|好看|好听|好吃|好玩|爱好|好用|差不多|相差|热爱|热门|"
    r"东西|南京|东京|西安|北京|东莞|济南|河南|河北|湖南|湖北|海南|云南|广东|广西|山东|山西|陕西|江西|台北|西瓜|西红柿|"
    r"红包|蓝牙|绿茶|红茶|黑龙江|马上|马路|天长|成长|校长|部长|班长|家长|市长|局长|队长|组长|会长|长城|长沙|长春|长江|擅长|"
    r"增长|特长|较真|真实|认真|难道|难过|热水|晚会|早安|晚安|长大|打开|快递|快乐|愉快|尽快|凉快|低调|高调|只要|只是|只有|"
    r"不仅|仅仅|左右|男女|输入|输出|运输|传输|买卖|父母|女士|子女|妇女|美女|少女|女神|帅男|短信|蜗牛|牛奶|牛肉|猪肉|鱼香|"
    r"斑马|河马|鳄鱼|鲨鱼|金鱼|章鱼|猫头鹰|熊猫|水星|火星|戒指|真正|全部|一直|难得|粉丝|好好|小吃|大陆|大连|大厦|小鸟"
)


def alternatives_in(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Words of the groups in a text: group, member, where it starts and ends. Not, e.g., 大 in 大学.

    >>> [(group, member) for group, member, _, _ in alternatives_in("Emails in the morning, 不要打电话")]
    [('channel', 'email'), ('part of day', 'morning'), ('channel', 'phone')]
    """
    for match in _LATIN.finditer(text):
        yield (*_MEMBERS[match.group().casefold()], match.start(), match.end())
    hidden = _NOT_MEANT.sub(lambda match: match.group() if match.group() in WORDS else "\0" * len(match.group()), text)
    for match in _HAN.finditer(hidden):
        yield (*_MEMBERS[match.group()], match.start(), match.end())


_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|can't|won't|don't|doesn't|didn't|isn't|aren't|"
    r"wasn't|weren't|haven't|hasn't|hadn't|shouldn't|wouldn't|couldn't|mustn't|dont|doesnt|didnt|cant|wont|unable|"
    r"avoids?|avoiding|refuses?|lacks?|fails? to|stopped|quit|gave up|allergic)\b"
    r"|[不没無无別别勿未莫甭]|禁止|拒绝|戒[了掉]|非(?![常洲得要])",
    re.I,
)
#: What contains such a sign and denies nothing.
_NO_NEGATION = re.compile(
    r"\b(?:no problem|not only|no doubt|no\.? ?\d+|no wonder|nothing but|whether or not|or not|no matter)\b"
    r"|(.)[不没]\1|有没有|是不是|要不要|不错|不过|不但|不仅|不管|不论|无论|不然|不得不|不少|不断|不久|不同|不好意思|不客气|"
    r"不一会|不妨|不愧|差不多|要不(?!要)|没关系|没问题|没事|了不起|对不起|来不及|不一样|说不定|不如|特别|别人|别的|区别|分别|级别|"
    r"性别|告别|类别|个别|别墅|识别|鉴别|辨别|差别|派别|离别|送别|无缘无故|不可分割|不知不觉|未来|未必|未免|无线|无锡|"
    r"无聊|无敌|无奈|莫非|莫名|非常|不止|不由|不禁|(?<=[\u3400-\u9fff])[不没](?=\s*[?？])",
    re.I,
)
_HEDGE = re.compile(
    r"\b(?:(?<!\bin )(?<!\bof )(?<!\bsince )(?<!\blast )(?<!\bthis )(?<!\bnext )may(?! \d)|"
    r"might|maybe|perhaps|possibly|probably|could|would|considering|considers|thinking (?:of|about)|"
    r"plans? to|planning|planned|hopes? to|hoping|wants? to|wanted|wish(?:es)?|intends?|intending|going to|will|about "
    r"to|looking to|dreams? of|aims? to|tries to|trying to|interested in|would like)\b"
    r"|可能|也许|或许|大概|打算|计划|准备|考虑|希望|想(?:要|去|买|换|搬|学|当|做)|将要|即将|将会|会(?=[搬换去买])",
    re.I,
)
_OVER = re.compile(
    r"\b(?:used to|formerly|previously|once (?:was|lived|worked)|in the past|back then|no longer|any ?more|ex-|"
    r"former)\b|以前|曾经|过去|之前|原来|不再|再也不",
    re.I,
)
_CONDITION = re.compile(r"\b(?:if|unless|in case|whether|suppose|assuming)\b|如果|假如|要是|倘若|除非|是否|万一", re.I)
_QUESTION = re.compile(
    r"[?？]|[吗呢]\s*[。.!！]?$|(?<![什怎这那要多])么\s*[。.!！~]*$|什么|怎|如何|为何|哪(?!怕|吒|知)|谁|是否|能否|可否|请问"
    # A thing or its denial, one of two things, a number, a thing that is wanted
    r"|[啥咋]|干嘛|([^\W\d_]{1,2})[不没]\1|[好多快高大强贵][玩看用吃听]?还是|先.{1,8}还是先|是\w{1,8}还是"
    r"|何[时处]|几时|第几|[周期拜]几|几[点号岁月]|(?<![没不])多[久大长远高重](?!点)|多少(?![有会能])"
    r"|^\s*[跪急]?求(?![婚职学生救])|(?<![需要请追寻力讲苛])求(?:推荐|介绍|解|助|名字?|告知|答案)?[！!。~]*$"
    r"|^\s*(?:寻找?|找|搜索?)[一二两几本部个首]|^\s*(?:请|大家|帮我?|给我?|谁)?推荐(?:一下|[几个一])"
    r"|推荐(?:一下|[几个一][部本款首家个位]?)$"
    r"|^\s*(?:what|how|why|who|where|when|which|do|does|did|can|could|is|are)\b",
    re.I,
)


@dataclass(frozen=True)
class Stance:
    """How a text stands to what it says."""

    #: How many denials it has
    denials: int
    #: Whether it only plans, hopes or supposes
    hedged: bool
    #: Whether it tells of what is over
    over: bool
    #: Whether it depends on a condition
    conditional: bool
    #: Whether it asks
    asks: bool


@lru_cache(maxsize=1 << 14)
def stance_of(text: str) -> Stance:
    """The stance of a text that is NFKC-normalised.

    >>> stance_of("I no longer eat meat").denials, stance_of("能不能提额").denials, stance_of("我不吃肉").denials
    (1, 0, 1)
    """
    plain = _NO_NEGATION.sub(" ", text)
    return Stance(
        denials=len(_NEGATION.findall(plain)),
        hedged=bool(_HEDGE.search(text)),
        over=bool(_OVER.search(text)),
        conditional=bool(_CONDITION.search(text)),
        asks=bool(_QUESTION.search(text)),
    )
