"""Whether a tool's result reports an error, and which: a pure function of the result, without a model.

A result reports an error when it says so in its own voice: an error object, a status, a traceback, or text that
*begins* as an error message. A result that merely mentions the word (a page about error handling, a log that was
asked for) does not. When in doubt there is no error.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Longest message that is kept, in characters.
_MESSAGE_CHARS = 2_000
#: Longest slug, in words and in characters.
_SLUG_WORDS, _SLUG_CHARS = 8, 64
#: A vague opening ("failed to …", "unable to …") counts only in a result up to this long: a report, not a document.
_SHORT = 600
#: How much of the end of a result is searched for a traceback, in characters.
_TRACE_CHARS = 20_000

_ERRNO = "|".join(
    sorted({*errno.errorcode.values(), "ENOTFOUND", "EAI_AGAIN", "ESOCKETTIMEDOUT", "ERR_NETWORK"}, key=len)[::-1]
)
_CLASS = r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Fault|Timeout|Interrupt|Exit|NotFound|Refused|Denied))"

_TAG = re.compile(r"\s*<(?:tool_use_)?error>\s*(.*?)\s*(?:</(?:tool_use_)?error>|\Z)", re.S | re.I)
_RAISED = re.compile(rf"\s*(?:Uncaught |Unhandled |Caused by: )?{_CLASS}(?:\s*:\s*(.*)|\(.*\)\s*|\s*)\Z", re.S)
_TRACE_HEAD = re.compile(r"^[^\n]{0,40}?Traceback \(most recent call last\):", re.M)
_TRACE_LAST = re.compile(r"^(?:[|+\- ]*)(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?::[ \t]*(.*))?$")
_HTTP = re.compile(
    r"\s*(?:(?:client |server )?error:?\s+)?(?:"
    r"(?:HTTP(?:/\d(?:\.\d)?)?(?:\s+error)?(?:\s+status)?(?:\s+code)?|status(?:\s+code)?|"
    r"request failed with status(?: code)?|error code)\s*[:=]?\s*([45]\d\d)\b"
    r"|([45]\d\d)\s+(?:client error|server error|bad request|unauthorized|forbidden|not found|"
    r"method not allowed|conflict|gone|too many requests|internal server error|not implemented|bad gateway|"
    r"service unavailable|gateway time-?out|unprocessable)"
    r")\s*[:.\-–]?\s*",
    re.I,
)
_SYSCALL = re.compile(rf"\s*(?:error:?\s+)?(?:[a-z]+\s+){{0,3}}\(?({_ERRNO})\b")
_ERRNO_NUMBER = re.compile(r"\s*(?:[\w.]+:\s*)?\[(?:Errno|WinError) (\d+)\]")
_EXIT = re.compile(
    r"\s*(?:(?:process|command)\s+)?(?:exited|failed|finished)?\s*(?:with\s+)?(?:exit|return)?\s*"
    r"(?:code|status)\s*:?\s*(\d+)\b[.:]?\s*",
    re.I,
)
_EXIT_WORD = re.compile(r"\s*\S*(?:process|command|exit|return)", re.I)
_SHELL = re.compile(
    r"\s*[\w./+-]+: [^\n]{0,300}?(command not found|no such file or directory|permission denied|"
    r"is a directory|not a directory|connection refused|syntax error[^\n]*)\s*\Z",
    re.I,
)
_SHELL_CODES = {
    "command not found": "command_not_found",
    "no such file or directory": "ENOENT",
    "permission denied": "EACCES",
    "is a directory": "EISDIR",
    "not a directory": "ENOTDIR",
    "connection refused": "ECONNREFUSED",
}
#: "Error: …", "[ERROR] …", "Fatal error - …", "error[E0308]: …"
_PREFIX = re.compile(
    r"[\s\W]{0,4}(?:tool |fatal |runtime |api |internal |system |execution |server |validation )?"
    r"(?:error|fatal|exception|panic|failure)(?:\[(\w+)\])?(?:\]|\*\*)?(?:\s*\(([\w.-]+)\))?\s*(?:[:：!]|\s[-–—]\s|\Z)"
    r"(?:\*\*)?\s*",
    re.I,
)
#: "[ERROR] …" without a colon.
_BRACKET = re.compile(r"\s*\[(?:error|fatal|exception)\]\s+", re.I)
#: "Error executing tool …": an error that happened, not a text about errors.
_DOING = re.compile(
    r"\s*(?:an? )?(?:unexpected |internal |unknown |fatal )?(?:error|exception)\s+"
    r"(?:occurr?ed|executing|running|calling|invoking|fetching|reading|writing|opening|loading|parsing|connecting|"
    r"processing|searching|querying|getting|creating|updating|deleting|sending|during|while|when trying|code)\b",
    re.I,
)
_VAGUE = re.compile(
    r"\s*(?:failed to\b|unable to\b|"
    r"could ?n[o']t (?:connect|read|write|open|parse|load|resolve|reach|execute|run|fetch|complete|process)\b|"
    r"cannot (?:connect|read|write|open|parse|load|resolve|reach|execute|run|fetch|complete|process)\b|"
    r"(?:the )?(?:request|operation|command|tool|tool call|call|execution|query|connection|action)"
    r" (?:has )?(?:failed|was (?:refused|rejected|denied|aborted|cancell?ed because))\b|"
    r"(?:access|permission) denied\b|connection (?:refused|reset|aborted|timed out)\b|"
    r"rate limit(?:ed| exceeded| reached)\b)",
    re.I,
)
_TIMEOUT = re.compile(
    r"\s*(?:error:?\s+)?(?:the )?(?:request |operation |command |tool |tool call |connection |execution |query |call )?"
    r"(?:has |was )?(?:timed[ -]out|time-?out)"
    r"(?:\s+(?:after|expired|exceeded|error|waiting|while|of)\b|\s*[:.!,]|\s*\Z)",
    re.I,
)
_CHINESE = re.compile(
    r"[\s\W]{0,4}(?:系统|网络|请求|调用|执行|操作|查询|连接|工具|接口|处理|服务|读取|写入|提交|支付|创建|更新|删除|参数|内部)*"
    r"(?:错误|出错|异常|失败|超时|报错|被拒绝)(?:了|码)?\s*(?:[:：!！,，。;；(（\[【]|\Z)\s*"
)

#: What in a message is this one's and not its kind's: quoted values, links, paths, anything with a digit.
_PARTICULAR = re.compile(
    r"\"[^\"]*\"|'[^']*'|`[^`]*`|“[^”]*”|「[^」]*」|https?://\S+|(?:\.{0,2}/)[\w./-]+|<[^>]*>"
    r"|[A-Za-z_#$€£¥-]*\d[\w.:/%-]*"
)
_CLAUSE_END = re.compile(r"[,;\n，。；：！!?？(\[{|]|:\s|\.\s|\.\Z|\s[-–—]\s")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")

_MESSAGE_KEYS = (
    "message",
    "error_message",
    "errorMessage",
    "msg",
    "detail",
    "details",
    "reason",
    "description",
    "error_description",
    "title",
    "stderr",
    "text",
    "content",
)
_CODE_KEYS = (
    "code",
    "error_code",
    "errorCode",
    "errcode",
    "type",
    "error_type",
    "errorType",
    "name",
    "status",
    "status_code",
    "statusCode",
    "reason",
)
_STATUS_KEYS = ("status", "status_code", "statusCode", "http_status", "httpStatus", "code")
_EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_SURE_STATUS = {"error", "exception", "errored"}
_VAGUE_STATUS = {"failed", "failure", "fail", "timeout", "timed_out", "rejected", "denied"}
_WRAPPERS = ("result", "output", "content", "response", "text", "data", "body")
_NOTHING = {"", "none", "null", "false", "ok", "no", "nil", "success"}


#: An object with only these keys and errors is an error; one with others may be a report about errors.
_GRAPHQL = {"errors", "message", "status", "code", "data", "extensions"}
_NO_CODES = _SURE_STATUS | _VAGUE_STATUS | _NOTHING


@dataclass(frozen=True)
class ToolError:
    """What went wrong in a tool call."""

    #: The literal code (HTTP status, exception class, errno name, a code in the error object), else a slug of the
    #: message without ids and numbers: equal failures have equal codes
    code: str
    #: What the tool said
    message: str


def tool_error(result: object) -> ToolError | None:
    """The error that a tool's result reports, or None when it worked.

    `result` is what the tool returned: text (JSON in text is read as JSON), a mapping, or a list of content blocks.

    >>> tool_error("Error: gift card balance is not enough")
    ToolError(code='gift_card_balance_is_not_enough', message='gift card balance is not enough')
    >>> tool_error({"error": {"code": "rate_limited", "message": "slow down"}}).code
    'rate_limited'
    >>> tool_error("HTTP 503 Service Unavailable").code
    '503'
    >>> tool_error("How to handle an error: read the log first") is None
    True
    """
    return _of(result, 0)


def error_slug(message: str) -> str:
    """A message as the name of its kind: its first clause, lower case, without quoted values, ids and numbers.

    >>> error_slug("payment amount does not add up, total price is 4875, but paid 1625")
    'payment_amount_does_not_add_up'
    >>> error_slug("支付接口超时：订单 8812")
    '支付接口超时'
    """
    plain = _PARTICULAR.sub(" ", message[:_MESSAGE_CHARS])
    for clause in _CLAUSE_END.split(plain):
        words = _WORD.findall(clause.lower().replace("’", "'").replace("'", ""))
        if words:
            return "_".join(words[:_SLUG_WORDS])[:_SLUG_CHARS].rstrip("_")
    return "error"


def _of(result: object, depth: int) -> ToolError | None:
    if depth > 3:
        return None
    if isinstance(result, str):
        return _of_text(result, depth)
    if isinstance(result, bytes):
        return _of_text(result.decode("utf-8", "replace"), depth)
    if isinstance(result, Mapping):
        return _of_mapping(result, depth)
    if isinstance(result, BaseException):
        return ToolError(type(result).__name__, str(result)[:_MESSAGE_CHARS])
    if isinstance(result, Sequence):
        blocks = [part.get("text") for part in result if isinstance(part, Mapping) and part.get("type") == "text"]
        if blocks and len(blocks) == len(result):
            return _of_text("\n".join(block for block in blocks if isinstance(block, str)), depth)
        if len(result) == 1 and isinstance(result[0], Mapping):
            return _of_mapping(result[0], depth)
    return None


def _made(code: object, message: str) -> ToolError:
    text = message.strip()[:_MESSAGE_CHARS]
    literal = "" if code is None or isinstance(code, bool | float) else str(code).strip()
    # A code is one word; a sentence in a code's place is a message.
    no_code = not literal or len(literal) > _SLUG_CHARS or re.search(r"\s", literal)
    if no_code or literal.lower() in {"error", *_NOTHING}:
        inner = _of_text(text, 3) if text else None
        literal = inner.code if inner else error_slug(text or literal)
    return ToolError(literal, text)


def _of_text(text: str, depth: int) -> ToolError | None:
    head = text[:4_000].strip()
    if not head:
        return None
    if head[0] in "{[" and depth < 3:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return _of(value, depth + 1)
    if match := _TAG.match(text):
        return _of_text(match[1], depth + 1) or _made(None, match[1])
    return _of_trace(text) or _of_opening(text.strip(), head)


def _of_trace(text: str, anywhere: bool = False) -> ToolError | None:
    """A Python traceback that ends the text, or is `anywhere` in it: its class is the code."""
    heads = list(_TRACE_HEAD.finditer(text[-_TRACE_CHARS:]))
    if not heads:
        return None
    lines = [line for line in text[-_TRACE_CHARS:][heads[-1].end() :].splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if match := _TRACE_LAST.match(line):
            if anywhere or place >= len(lines) - 5:
                return ToolError(match[1], (match[2] or "").strip()[:_MESSAGE_CHARS] or match[1])
            return None
    return None


def _of_opening(text: str, head: str) -> ToolError | None:
    """Text that begins as an error message."""
    short = len(text) <= _SHORT
    if match := _HTTP.match(head):
        return ToolError(match[1] or match[2], text[:_MESSAGE_CHARS])
    if match := _SYSCALL.match(head):
        return ToolError(match[1], text[:_MESSAGE_CHARS])
    if match := _ERRNO_NUMBER.match(head):
        return ToolError(errno.errorcode.get(int(match[1]), f"errno_{match[1]}"), text[:_MESSAGE_CHARS])
    if (match := _RAISED.match(head)) and match[1] not in {"Error", "Exception"}:
        return ToolError(match[1], (match[2] or "").strip()[:_MESSAGE_CHARS] or match[1])
    if match := _PREFIX.match(head) or _BRACKET.match(head):
        rest = text[match.end() :].strip()
        code = next((group for group in match.groups() if group), None)
        inner = _of_opening(rest, rest[:4_000]) if rest else None
        return ToolError(code or (inner.code if inner else error_slug(rest)), rest[:_MESSAGE_CHARS])
    if match := _CHINESE.match(head):
        rest = text[match.end() :].strip() or text
        return ToolError(error_slug(rest), rest[:_MESSAGE_CHARS])
    if _TIMEOUT.match(head) and short:
        return ToolError("timeout", text)
    if (match := _EXIT.match(head)) and int(match[1]) != 0 and _EXIT_WORD.match(head):
        rest = text[match.end() :].strip()
        return _of_trace(rest, anywhere=True) or ToolError(f"exit_{match[1]}", (rest or text)[:_MESSAGE_CHARS])
    if _DOING.match(head):
        return ToolError(error_slug(text), text[:_MESSAGE_CHARS])
    if short and (match := _SHELL.match(text)):
        return ToolError(_SHELL_CODES.get(match[1].lower(), "syntax_error"), text)
    if short and _VAGUE.match(head):
        return ToolError(error_slug(text), text)
    return None


def _message(value: Mapping[object, object]) -> str:
    for key in _MESSAGE_KEYS:
        part = value.get(key)
        if isinstance(part, str) and part.strip():
            return part
        if isinstance(part, Sequence) and not isinstance(part, str):
            blocks = [block.get("text") for block in part if isinstance(block, Mapping)]
            texts = [block for block in blocks if isinstance(block, str)]
            if texts:
                return "\n".join(texts)
    return ""


def _code(value: Mapping[object, object]) -> object:
    for key in _CODE_KEYS:
        part = value.get(key)
        if isinstance(part, int) and not isinstance(part, bool) and part:
            return part
        if isinstance(part, str) and re.fullmatch(r"\s*\S+\s*", part) and part.strip().lower() not in _NO_CODES:
            return part
    return None


def _of_mapping(value: Mapping[object, object], depth: int) -> ToolError | None:
    said = value.get("error", value.get("err"))
    if isinstance(said, str) and said.strip().lower() not in _NOTHING:
        # {"error": "invalid_grant", "error_description": "…"}: the word is the code; else it is the message.
        if re.search(r"\s", said.strip()) or said.lower() == "true":
            return _made(_code(value), _message(value) if said.lower() == "true" else said)
        return _made(_code(value) or said, _message(value) or said)
    if isinstance(said, Mapping) and said:
        return _made(_code(said), _message(said) or json.dumps(said, ensure_ascii=False, default=str))
    if isinstance(said, Sequence) and not isinstance(said, str) and said:
        return _of_list(said)
    if said is True or (isinstance(said, int) and not isinstance(said, bool) and 400 <= said <= 599):
        return _made(None if said is True else said, _message(value))
    if any(value.get(key) is True for key in ("is_error", "isError")):
        return _made(_code(value), _message(value))
    if any(value.get(key) is False for key in ("success", "ok", "succeeded")):
        return _made(_code(value), _message(value))
    errors = value.get("errors")
    if isinstance(errors, list | tuple) and errors and not value.get("data") and value.keys() <= _GRAPHQL:
        return _of_list(errors)
    return _of_status(value) or _of_wrapped(value, depth)


def _of_list(errors: object) -> ToolError:
    first = errors[0] if isinstance(errors, Sequence) else None
    if isinstance(first, Mapping):
        return _made(_code(first), _message(first) or json.dumps(first, ensure_ascii=False, default=str))
    return _made(None, str(first))


def _of_status(value: Mapping[object, object]) -> ToolError | None:
    message = _message(value)
    status = value.get("status", value.get("type"))
    if isinstance(status, str):
        word = status.strip().lower()
        if word in _SURE_STATUS or (word in _VAGUE_STATUS and (message or len(value) == 1)):
            return _made(_code(value) or (None if message or word in _SURE_STATUS else word), message or status)
    for key in _STATUS_KEYS:
        number = value.get(key)
        is_failure = isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599
        if is_failure and (key != "code" or message):
            return _made(number, message)
    for key in ("exception", "traceback", "stack_trace", "stackTrace"):
        raised = value.get(key)
        if isinstance(raised, str) and raised.strip():
            return _of_text(raised, 3) or _made(_code(value), message or raised)
    for key in _EXIT_KEYS:
        number = value.get(key)
        if isinstance(number, int) and not isinstance(number, bool) and number != 0:
            return ToolError(f"exit_{number}", message[:_MESSAGE_CHARS])
    if len(value) == 1 and isinstance(value.get("detail"), str) and message:
        return _made(None, message)
    return None


def _of_wrapped(value: Mapping[object, object], depth: int) -> ToolError | None:
    if len(value) == 1:
        key, inner = next(iter(value.items()))
        if key in _WRAPPERS:
            return _of(inner, depth + 1)
    return None
