"""SWE-agent trajectories: `{"trajectory": [{"action", "observation", "thought", …}], "history": […], "info": {…}}`.

Each step with an action is a tool call; the command's first word is the tool, unless the model named a function.
That a patch was submitted says nothing about its worth, so the outcome is unknown then; an exit for any other reason
is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..capture.tool_errors import error_slug
from .conversation import Conversation, add_attributes, goal_of
from .draft import Draft, event
from .genai import decoded
from .labels import beside
from .loose import canonical, first, mapping, real, rest, sequence, text, whole
from .records import Record

#: How SWE-agent's own tools say that a command failed.
_REFUSED = re.compile(
    r"\s*(Your proposed edit has introduced new syntax error|Your command contained syntax errors|"
    r"Your (?:bash )?command contained|Your output (?:could not be parsed|was not formatted correctly)|"
    r"Interactive operation '|The command .{0,200} was cancelled because|EXECUTION TIMED OUT|"
    r"Text not found|File .{0,200} not found)"
)


class SWEAgent:
    """SWE-agent's .traj files."""

    name = "swe-agent"
    about = "SWE-agent trajectories (.traj)"

    def matches(self, value: object) -> bool:
        """Whether the value has a trajectory of actions and observations."""
        steps = sequence(mapping(value).get("trajectory"))
        return any(isinstance(one, dict) and "action" in one and "observation" in one for one in steps)

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """A record is a trace."""
        yield "", record.value

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of a trajectory."""
        record = mapping(parts[0])
        info = mapping(record.get("info"))
        config = mapping(decoded(record.get("replay_config")))
        problem = mapping(config.get("problem_statement"))
        history = [mapping(one) for one in sequence(record.get("history"))]
        talk = Conversation()
        answers = [one for one in history if one.get("role") == "assistant" and not one.get("is_demo")]
        before = next((n for n, one in enumerate(history) if one in answers), len(history))
        for one in history[:before]:
            talk.add(rest(one, ("agent", "message_type", "cache_control")))
        for number, step in enumerate(map(mapping, sequence(record.get("trajectory")))):
            _step(talk, step, answers[number] if number < len(answers) else {})
        events = talk.end()
        asked = goal_of(one for one in events if "is_demo" not in one.attributes)
        start = event("task", "task", content=text(problem.get("text")) or asked or goal_of(events),
                      task_id=text(problem.get("id")), task_type="",
                      model=text(mapping(mapping(config.get("agent")).get("model")).get("name")))  # fmt: skip
        add_attributes(start, beside(record, ("trajectory", "history", "info", "replay_config")))
        status = text(info.get("exit_status"))
        if status:
            left = beside(info, {"exit_status", *(name for name in info if name.startswith("edited_files"))})
            ended = event("outcome", "outcome", outcome="unknown" if status.startswith("submitted") else "failure",
                          content=f"exit status: {status}")  # fmt: skip
            if status != "submitted":
                ended.error_code = error_slug(status.removeprefix("submitted").strip(" ()"))
            add_attributes(ended, left)
            events.append(ended)
        return Draft((self.name, canonical(record)), [start, *events], notes=talk.notes())


def _step(talk: Conversation, step: dict[str, object], answer: dict[str, object]) -> None:
    thought = text(first(step, "thought", "response"))
    if thought.strip():
        talk.say("agent", thought)
    action = text(step.get("action"))
    if not action.strip():
        if observation := text(step.get("observation")):
            talk.say("system", observation)
        return
    asked = mapping((sequence(answer.get("tool_calls")) or [None])[0])
    function = mapping(asked.get("function"))
    tool = text(function.get("name")) or action.split(None, 1)[0]
    called = talk.call(tool, function.get("arguments") or {"command": action}, text(asked.get("id")))
    observation = text(step.get("observation"))
    talk.result(observation, called.call_id, tool, failed=True if _REFUSED.match(observation) else None)
    if (seconds := real(step.get("execution_time"))) is not None:
        called.latency_us = whole(round(seconds * 1e6))
    left = rest(step, ("thought", "response", "action", "observation", "execution_time", "messages", "query"))
    if function:
        left["action"] = action
    response = text(step.get("response"))
    if response and not (thought.strip() in response and action.strip() in response) and response != thought:
        left["response"] = response
    if left:
        add_attributes(called, left)
