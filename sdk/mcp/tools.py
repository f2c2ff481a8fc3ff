"""The tools that the server has: names, when to call them, and what they take (R29)."""

from __future__ import annotations

from . import acts
from .parameters import Parameter
from .registry import Registry, Tool

_SUBJECT = Parameter("subject", "string", "Whom it is about, such as user:42. Leave out for what is shared by all.")
_CURSOR = Parameter("cursor", "string", "To read on: the cursor of the answer before, with the same query.")
_ID = Parameter("id", "string", "Id of the memory, as memory_query shows it.", is_required=True)
_CONTENT = Parameter("content", "string", "What to remember: one sentence that stands alone.", is_required=True)
_TOOL = Parameter("tool", "string", "Tool that the lesson is about, if it is about one.")
_OUTCOMES = ("success", "failure", "partial")

TOOLS = Registry(
    [
        Tool(
            "memory_query",
            "Look up what is known. Call this before you answer or act, and whenever the user speaks of something "
            "earlier.",
            (
                Parameter("query", "string", "What you want to know, in plain words.", is_required=True),
                Parameter(
                    "top_k", "integer", "Most to return, 1 to 50. 5, or 3 experiences, unless given.", least=1, most=50
                ),
                Parameter(
                    "time_range_days", "integer", "Only what is known since so many days. Leave out for all time.",
                    least=0, most=36_500,
                ),
                Parameter(
                    "memory_type", "string", "Only memories of this type. Leave out for all but episodes.",
                    choices=("fact", "preference", "rule", "experience", "episode"),
                ),
                _SUBJECT,
                _CURSOR,
            ),
            acts.memory_query,
        ),
        Tool(
            "memory_write",
            "Remember something for later. Call this when the user states a lasting fact or preference, or something "
            "worth recalling happened.",
            (
                _CONTENT,
                Parameter(
                    "memory_type", "string", "What it is; fact unless given. A rule is only proposed to a person.",
                    choices=("fact", "preference", "episode", "rule"),
                ),
                Parameter("importance", "number", "How much it matters, 0 to 1. 0.5 unless given."),
                Parameter("entities", "array", "Names that it mentions: people, products, places."),
                _SUBJECT,
            ),
            acts.memory_write,
            writes=True,
        ),
        Tool(
            "memory_update",
            "Correct a memory. Call this when what memory_query showed is no longer true. The old text is kept as "
            "history.",
            (_ID, _CONTENT),
            acts.memory_update,
            writes=True,
            destructive=True,
        ),
        Tool(
            "memory_forget",
            "Stop returning a memory. Call this when the user asks you to forget something.",
            (_ID, Parameter("reason", "string", "Why, in a few words.")),
            acts.memory_forget,
            writes=True,
            destructive=True,
        ),
        Tool(
            "memory_reflect",
            "Ask that lessons be drawn from recent tasks. Call this after a hard or failed task; with request_id, to "
            "see how far it is.",
            (Parameter("request_id", "string", "Id of an earlier request, to see its state. Leave out to ask."),),
            acts.memory_reflect,
            writes=True,
            idempotent=True,
        ),
        Tool(
            "memory_explain",
            "Tell why a memory is there and who said it. Call this when you doubt a memory, or the user asks how you "
            "know.",
            (
                _ID,
                Parameter("query", "string", "A search: tells why it finds the memory, or does not."),
                _SUBJECT,
            ),
            acts.memory_explain,
        ),
        Tool(
            "store_experience",
            "Keep a lesson that helps with other tasks of this kind. Call this when you found out what works or what "
            "to avoid.",
            (
                Parameter("task_type", "string", "Kind of task, such as refund or code_review.", is_required=True),
                Parameter(
                    "pattern", "string", "The lesson: in situation S, do or avoid X. At most 60 words.",
                    is_required=True,
                ),
                Parameter("outcome", "string", "How the task ended.", is_required=True, choices=_OUTCOMES),
                _TOOL,
            ),
            acts.store_experience,
            writes=True,
        ),
        Tool(
            "retrieve_experience",
            "Look up lessons of earlier tasks. Call this before you begin a task, or after a tool failed.",
            (
                Parameter("query", "string", "What you are about to do, or what went wrong.", is_required=True),
                Parameter("task_type", "string", "Kind of task. Leave out for lessons of all kinds."),
                Parameter("top_k", "integer", "How many lessons at most, 1 to 50. 3 unless given.", least=1, most=50),
                _TOOL,
                Parameter("outcome", "string", "Only lessons of tasks that ended so.", choices=_OUTCOMES),
                _CURSOR,
            ),
            acts.retrieve_experience,
        ),
    ]
)  # fmt: skip
