"""Statements in Chinese clauses."""

from __future__ import annotations

import re

from ....memory_store.text.entities import SURNAMES
from .attributes import attribute_of
from .statements import Statement, channel_of, clean_value, liking, of_attribute, slug, state

_FILLER = re.compile(
    r"^(?:你好|您好|嗯+|哦|啊|对了|另外|其实|那个?|还有|而且|然后|所以|因为|不过|但是?|请?(?:帮我)?记住|请注意|注意|"
    r"记一下|顺便(?:说|提)?(?:一下|一句)?|"
    r"麻烦(?:你|您)?|补充一下|说明一下|更正一下|先说一下|抱歉|不好意思|不对|不是的?|好的?|是的)[，,：:\s]*"
)
_CHANGE = (
    r"(?:改成|改为|改到|变成|变为|换成|换为|更新为|更新成|调整到|调整为|调到|提高到|提升到|降低?到|降至|增加到|"
    r"减少?到|涨到|升到|更改为|修改为)"
)
_MINE = re.compile(
    rf"^(?:我们?的?|咱们?的?)(?P<what>[\u4e00-\u9fffA-Za-z][\u4e00-\u9fffA-Za-z -]{{0,14}}?)(?:现在|目前|已经|已|"
    r"暂时|就|一直|刚刚?|最近)*"
    rf"(?P<link>{_CHANGE}了?|不再是|不是|是|为(?!了)|叫|：|:|有(?=\d)|只有|大概是|=)\s*(?P<value>.+)$"
)
_BARE = re.compile(
    r"^(?:把|将|请把|帮我把|想把|要把|我想把|我要把)?(?:我们?的?|"
    rf"那个)?(?P<what>[\u4e00-\u9fffA-Za-z -]{{2,8}}?)(?:现在|已经|要|想)*(?P<link>{_CHANGE}了?|不是|是|：|"
    r":)\s*(?P<value>.+)$"
)
_NAME = re.compile(
    r"^(?:我叫|我的?名字(?:是|叫)|我的?姓名(?:是|为)|本人姓名)\s*(?P<value>[\u4e00-\u9fff·]{2,6}|[A-Z][\w .'-]{1,30})$"
)
_NICK = re.compile(
    r"^(?:你?(?:以后)?(?:可以|就)?(?:叫|喊|称呼)我)\s*(?P<value>[\u4e00-\u9fff]{1,6}|[A-Z][\w'-]{1,20})(?:就行|就好|"
    r"就可以|吧)?$"
)
_LIVE = re.compile(
    r"^我(?:们家|们|家)?(?:现在|目前|已经|刚刚?|最近|一直)*(?P<verb>住在|搬到了?|搬去了?|定居在?|"
    r"常住)(?P<value>[\u4e00-\u9fffA-Za-z0-9# -]{2,40}?)了?$"
)
_FROM = re.compile(
    r"^我(?:来自|老家(?:是|在)|是(?=[\u4e00-\u9fff]{2,5}人$))(?P<value>[\u4e00-\u9fff]{2,12}?)(?:人|的)?$"
)
_WORK = re.compile(
    r"^我(?:现在|目前)?在(?P<value>[\u4e00-\u9fffA-Za-z0-9]{2,20}?)(?P<verb>工作|上班|任职|上学|读书|念书)(?:了)?$"
)
_JOB = re.compile(
    r"^我(?:现在|目前)?(?:是|做|当)(?:一?[个名位])?(?P<value>[\u4e00-\u9fffA-Za-z]{0,8}(?:工程师|老师|教师|医生|护士|"
    r"律师|学生|设计师|经理|程序员|会计|"
    r"司机|厨师|记者|作家|研究员|教授|顾问|销售|公务员|警察|店主|老板|自由职业者|全职妈妈|产品经理|运营|摄影师|翻译|"
    r"农民|军人|编辑|演员|博士生|研究生|大学生))$"
)
_AGE = re.compile(r"^我(?:今年|现在|已经)*(?P<value>[\d一二三四五六七八九十]{1,3})岁了?$")
_ALLERGY = re.compile(
    r"^我(?:从小|一直|本人|严重)*(?P<no>不再|现在不|不|已经不)?对(?P<value>[\u4e00-\u9fffA-Za-z、和]{1,20}?)(?:严重|"
    r"很|有点|会|有)?过敏了?$"
)
_DIET = re.compile(
    r"^我(?:是|一直|现在|只|开始)*(?P<value>吃素|素食者|素食主义者|纯素|吃全素|清真|无麸质|生酮)(?:的|了|饮食)?$"
)
_DONT_EAT = re.compile(
    r"^我(?:从来|从|一直|平时|现在|真的|是)*(?P<no>不能|不|戒|不可以)(?P<verb>吃|喝|碰|"
    r"沾)(?P<value>[\u4e00-\u9fffA-Za-z、和]{1,12}?)(?:的|了)?$"
)
_LIKE = re.compile(
    r"^我(?:们|个人)?(?:一直|平时|最|特别|很|非常|比较|更|还是|其实|从小就?|超|超级|挺|真的?|最近|现在|都|也|就|一般|"
    r"通常|是|有点)*"
    r"(?P<not>不再|再也不|已经不|现在不|不太|不怎么|不是很|不|没那么)?(?:太|很|再|那么)?(?P<verb>喜欢|"
    r"爱(?=[吃喝看听玩用坐])|热爱|偏好|偏爱|倾向于?|讨厌|反感|受不了|"
    r"习惯|喜爱|钟爱)(?P<value>[^，。！？；]{1,30})$"
)
_CONTACT = re.compile(
    r"^(?:请|以后|以后请|有事|有什么事|尽量|都|最好|麻烦|只|直接|你|您|可以)*(?P<no>不要|别|不用|勿|请勿|不想|不希望|"
    r"不喜欢)?(?:再)?(?:给我|跟我|和我|用|通过|发|以|打)*"
    r"(?:打|发|用|接|通过)?(?P<channel>电话|邮件|邮箱|短信|微信|email|电邮|钉钉|飞书)(?:给我|联系我?|通知我?|沟通|"
    r"找我|回复我?|就行|就好|即可|吧)*$",
    re.I,
)
_RULE = re.compile(
    r"(?P<durable>以后|今后|从现在起|从现在开始|从今以后|从今天起|往后|下次开始|每次|每当|永远|千万|务必|一律|始终|"
    r"总是|绝对|必须(?:每次|始终|总是))"
)
_ORDER = re.compile(
    r"(?:不要|别|不许|不准|不能|请|要|得|必须|都(?:要|用|得|请|先|给|只)|务必|先|只能|只用|记得|"
    r"用(?![完过了的着上下])|帮我|给我|提醒|直接|千万|一律|按|把|叫我)"
)
_STORY = re.compile(
    r"(?:我|他|她|它|他们|系统|页面|程序|它们)(?:每次|总是|永远|以后|今后|始终)|^(?:每次|总是|永远|始终)(?:我|都?会|"
    r"都?是|打开|登录|登陆|点|提交|出现)(?!.*(?:请|要|别|先))|(?:我|我们)(?:会|想|打算|准备)"
)
_HAVE = re.compile(
    r"^我(?:家)?(?:有|养了?)(?P<value>(?:[一两二三四五六\d]+[个只条位匹辆套]|[个只条])?(?:\w{0,3}?)(?:孩子|儿子|女儿|"
    r"狗|猫|宝宝|妹妹|弟弟|哥哥|姐姐|糖尿病|高血压|哮喘|房子|车))$"
)
_WHO = (
    r"(?P<who>爸爸?|妈妈?|父亲|母亲|老婆|老公|妻子|丈夫|爱人|儿子|女儿|孩子|哥哥?|弟弟?|姐姐?|妹妹?|"
    r"表[哥弟姐妹]|堂[哥弟姐妹]|爷爷|奶奶|外公|外婆|姥姥|姥爷|"
    r"叔叔|阿姨|舅舅|姑姑|姨妈|侄[子女]|外甥女?|上司|老板|领导|同事|下属|同学|室友|邻居|朋友|男友|女友|男朋友|女朋友|"
    r"老师|导师|岳父|岳母|公公|婆婆|婆家|闺蜜)"
)
_RELATIVE = re.compile(rf"^我的?{_WHO}[，,]?(?:他|她|它)?(?P<rest>.{{3,60}})$")
_IS_RELATIVE = re.compile(rf"^(?P<name>[{SURNAMES}][\u4e00-\u9fff]{{1,2}})是我的?{_WHO}$")
_LASTING = (
    ("name", re.compile(r"名叫|名字|姓名")),
    ("education", re.compile(r"学历|毕业|本科|硕士|博士|高中|大专|专科|读到|学位")),
    ("workplace", re.compile(r"公司|单位|任职|就职|供职|工作地|在[\u4e00-\u9fff]{2,10}(?:工作|上班)")),
    (
        "job",
        re.compile(
            r"职业|职位|工作是|从事|(?:是|当|做)(?:一?[个名位])?[\u4e00-\u9fff]{0,6}(?:师|员|长|员工|工人|医生|经理|"
            r"律师|教授|警察|"
            r"司机|农民|学生|干部|主管|护士|作家|记者)(?:的|了)?$|做[\u4e00-\u9fff]{1,6}(?:工作|行业)|"
            r"干[\u4e00-\u9fff]{2,4}的$"
        ),
    ),
    ("birthday", re.compile(r"生日|出生")),
    ("age", re.compile(r"岁")),
    ("height", re.compile(r"身高|\d{3}\s?(?:cm|厘米|公分)|米[一二三四五六七八九\d]")),
    ("email", re.compile(r"邮箱|@")),
    ("phone", re.compile(r"电话|手机|号码")),
    ("hobby", re.compile(r"爱好|喜欢|热爱|迷上|爱(?:看|听|玩|吃|打|做)|兴趣")),
    ("origin", re.compile(r"老家|籍贯|家乡|来自|是.{2,5}(?:人|的)$")),
    ("city", re.compile(r"住在")),
    ("personality", re.compile(r"性格|为人|脾气|外向|内向")),
    ("name", re.compile(r"^(?:就|的)?叫(?!我|了|来|做什么)")),
)
_MOMENT = re.compile(
    r"今天|昨天|明天|刚才|刚刚|这会儿|现在正|马上|等会|一会儿|今晚|今早|昨晚|后天|下周|上周|这周|"
    r"周[一二三四五六日末]|下个?月|[点号]要"
)


def chinese_statement(text: str, *, question: bool = False) -> Statement | None:
    """What a Chinese clause states; None if nothing lasting. In a question only a wish to change something counts."""
    clause = text.strip()
    while (shorter := _FILLER.sub("", clause, count=1)) != clause and shorter:
        clause = shorter
    quote = clause.strip("，,；;：: ")
    clause = clause.strip("，,。.；;！!~～ ").strip()
    if (match := _BARE.match(clause)) and _CHANGES.match(match["link"]):
        found = attribute_of(match["what"])
        value = re.sub(r"[，,]?(?:可以|行|好|能)?吗?[？?]*$", "", match["value"]) if question else match["value"]
        if found is not None and found.words and (said := state(match["what"], value, quote, changed=True)):
            return said
    if question:
        return None
    for reader in (_named, _body, _life, _taste, _contact, _rule, _relative, _mine):
        if said := reader(clause, quote):
            return said
    return None


_CHANGES = re.compile(_CHANGE)


def _named(clause: str, quote: str) -> Statement | None:
    if match := _NAME.match(clause):
        return of_attribute("name", clean_value(match["value"]), quote)
    if match := _NICK.match(clause):
        return of_attribute("nickname", clean_value(match["value"]), quote)
    return None


def _mine(clause: str, quote: str) -> Statement | None:
    match = _MINE.match(clause)
    if match is None:
        match = _BARE.match(clause)
        if match is None or (found := attribute_of(match["what"])) is None or not found.words:
            return None
    link, value = match["link"], match["value"]
    if link.startswith("不"):
        new = re.search(r"[，,]?(?:而是|应该是|是)(?P<new>[^，。]+)$", value)
        value = new["new"] if new else f"not {clean_value(value)}"
        return state(match["what"], value, quote, changed=True)
    changed = bool(_CHANGES.match(link)) or "现在" in clause[: match.start("value")]
    return state(match["what"], value, quote, changed=changed)


def _body(clause: str, quote: str) -> Statement | None:
    if match := _ALLERGY.match(clause):
        said = of_attribute("allergy", clean_value(match["value"]), quote, changed=bool(match["no"]))
        if match["no"]:
            return Statement("fact", quote, quote, said.attribute, "none", said.importance, 0.9, True)
        return said
    if match := _DIET.match(clause):
        return of_attribute("diet", match["value"], quote)
    if (match := _DONT_EAT.match(clause)) and not re.match(r"[了得下完]|什么|东西|饭|早饭|午饭|晚饭", match["value"]):
        return Statement("preference", quote, quote, f"diet:{slug(match['value'])}", f"不{match['verb']}", 0.8, 0.85)
    return None


def _life(clause: str, quote: str) -> Statement | None:
    if match := _LIVE.match(clause):
        return of_attribute("city", clean_value(match["value"]), quote, changed=match["verb"].startswith("搬"))
    if match := _FROM.match(clause):
        return Statement("fact", quote, quote, "origin", clean_value(match["value"]), 0.6, 0.8)
    if match := _WORK.match(clause):
        attribute = "employer" if match["verb"] in ("工作", "上班", "任职") else "school"
        return Statement("fact", quote, quote, attribute, clean_value(match["value"]), 0.6, 0.85)
    if match := _JOB.match(clause):
        return of_attribute("job", clean_value(match["value"]), quote)
    if match := _AGE.match(clause):
        return of_attribute("age", match["value"], quote)
    if match := _HAVE.match(clause):
        return Statement("fact", quote, quote, f"has:{slug(match['value'][-2:])}", match["value"], 0.5, 0.75)
    return None


def _taste(clause: str, quote: str) -> Statement | None:
    match = _LIKE.match(clause)
    if match is None or _MOMENT.search(clause):
        return None
    gone = (match["not"] or "") in ("不再", "再也不", "已经不", "现在不")
    bad = match["verb"] in ("讨厌", "反感", "受不了")
    if gone:
        return liking(match["value"], "no longer dislikes" if bad else "no longer", quote, changed=True)
    if match["verb"].startswith(("偏", "倾向", "习惯")):
        return None if match["not"] else liking(match["value"], "prefers", quote)
    return liking(match["value"], "dislikes" if bad != bool(match["not"]) else "likes", quote)


def _contact(clause: str, quote: str) -> Statement | None:
    match = _CONTACT.match(clause)
    if match is None or not re.search(r"我|联系|通知|沟通|打电话|回复|就行|就好|即可", clause):
        return None
    channel = channel_of(match["channel"])
    return of_attribute("contact_channel", f"not {channel}" if match["no"] else channel, quote, confidence=0.85)


def _rule(clause: str, quote: str) -> Statement | None:
    match = _RULE.search(clause)
    if match is None or _STORY.search(clause) or len(clause) < 6:
        return None
    if not _ORDER.search(clause[match.end() :]) and match["durable"] not in ("千万", "务必", "一律"):
        return None
    return Statement("rule", quote, quote, importance=0.8, confidence=0.8)


def _relative(clause: str, quote: str) -> Statement | None:
    if match := _IS_RELATIVE.match(clause):
        return Statement("fact", quote, quote, f"{match['who']}_name", match["name"], 0.5, 0.8)
    match = _RELATIVE.match(clause)
    if match is None or _MOMENT.search(clause):
        return None
    for name, pattern in _LASTING:
        if pattern.search(match["rest"]):
            value = _predicate(match["rest"])
            if name == "workplace":
                value = re.sub(r"(?:工作|上班|任职|就职)的?$", "", value)
            if not value or _VAGUE.match(value):
                return None
            return Statement("fact", quote, quote, f"{match['who']}_{name}", value, 0.5, 0.65)
    return None


def _predicate(rest: str) -> str:
    """What is said of a relative, without the words that only link."""
    value = _LINK.sub("", rest.lstrip("的"))
    return re.sub(r"(?<=..)的$", "", clean_value(value))


_LINK = re.compile(
    r"^(?:名字|姓名|邮箱地址|邮箱|联系电话|电话号码?|电话|手机号码?|手机|生日|学历|职业|职位|工作地|身高|爱好|老家|"
    r"公司|单位|性格|籍贯|家乡|年龄)?"
    r"(?:今年|现在|就|也|都|呢|他|她)*(?:是在|名叫|叫做?|是|在|只有|为|有|当|做|"
    r"干)?(?:一?[个名位](?=[\u4e00-\u9fff]{2}))?"
)
_VAGUE = re.compile(r"^(?:挺|很|比较|不算|不|非常|特别|蛮)*(?:高|低|好|不错|差|多|大|小|一般)的?$")
