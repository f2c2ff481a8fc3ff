"""Group chats of agents: a question, and a history in which each message names its speaker (AutoGen, Who&When).

The role of a message is only how one participant saw it: whoever is named is an agent. What an executor answers
(`exitcode: 1 (execution failed)`) is the result of a tool call, whose arguments are the code of the message before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .conversation import Conversation, is_message
from .draft import Draft, event
from .labels import OUTCOME_KEYS, beside, outcome_event
from .loose import canonical, first, json_text, mapping, sequence, text
from .records import Record

_CODE = re.compile(r"```[^\n`]*\n(.*?)```", re.S)
_EXECUTORS = {"computer_terminal", "computerterminal", "code_executor", "executor", "user_proxy_executor"}
_EXECUTED = re.compile(r"\s*exitcode: \d+ \(execution (?:succeeded|failed)\)")
_MAPPED = {"history", "question", "question_ID", "question_id", "system_prompt", *OUTCOME_KEYS}


class GroupChat:
    """Runs of several agents that talk to each other."""

    name = "group-chat"
    about = "multi-agent chats with a question and named speakers (AutoGen, Who&When)"

    def matches(self, value: object) -> bool:
        """Whether the value has a question and a history."""
        record = mapping(value)
        return isinstance(record.get("question"), str) and any(map(is_message, sequence(record.get("history"))))

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """A record is a trace."""
        yield "", record.value

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of a chat."""
        record = mapping(parts[0])
        talk = Conversation()
        for agent, prompt in mapping(record.get("system_prompt")).items():
            talk.say("system", json_text(prompt), agent=agent)
        said = ""
        for message in map(mapping, sequence(record.get("history"))):
            content = json_text(message.get("content"))
            name = text(first(message, "name", "agent"))
            role = text(message.get("role"))
            if name.lower() in _EXECUTORS or _EXECUTED.match(content):
                code = "\n".join(_CODE.findall(said))
                called = talk.call(name or "executor", {"code": code} if code else None)
                talk.result(content, called.call_id, called.tool)
            elif name:
                talk.say("agent", content, agent=name)
            else:
                talk.add({"role": role, "content": content})
            said = content
        events = talk.end()
        start = event("task", "task", content=text(record.get("question")),
                      task_id=text(first(record, "question_ID", "question_id")))  # fmt: skip
        if extra := beside(record, _MAPPED):
            start.attributes = json_text(extra)
        ended = outcome_event(record)
        return Draft((self.name, canonical(record)), [start, *events, *([ended] if ended else [])], notes=talk.notes())
