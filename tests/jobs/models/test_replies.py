"""Replies in the lake, in a folder and in a bucket."""

from __future__ import annotations

import pickle

import pytest

from hindlake.jobs.models.replies import LakeReplies, Reply
from hindlake.memory_store.errors import LakeError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

REPLY = Reply("key", '{"a": "“不” \\ud83d"}', finish="stop", model="m", mode="text", input_tokens=7, cost=3)


def test_a_reply_is_kept_to_the_letter(any_settings: Settings) -> None:
    replies = LakeReplies(any_settings)
    assert replies.get("default", "key") is None
    assert replies.begin("default", "key")
    assert replies.unanswered("default") == 1
    assert replies.put("default", REPLY) == REPLY
    assert replies.unanswered("default") == 0
    assert pickle.loads(pickle.dumps(replies)).get("default", "key") == REPLY


def test_of_two_replies_to_one_question_the_first_is_kept_by_both(any_settings: Settings) -> None:
    one, two = LakeReplies(any_settings), LakeReplies(any_settings)
    one.put("default", REPLY)
    later = Reply("key", "other")
    assert two.put("default", later) == REPLY
    assert one.get("default", "key") == REPLY


def test_a_question_whose_process_died_is_known_to_have_been_asked(any_settings: Settings) -> None:
    assert LakeReplies(any_settings).begin("default", "key")
    assert not LakeReplies(any_settings).begin("default", "key")
    LakeReplies(any_settings).give_up("default", "key")
    assert LakeReplies(any_settings).begin("default", "key")


def test_namespaces_keep_their_replies_apart_and_names_tell_nothing(settings: Settings, lake: Lake) -> None:
    replies = LakeReplies(settings)
    replies.put("default", REPLY)
    assert replies.get("other", "key") is None
    replies.put("other", REPLY)
    names = [name.rpartition("/")[2] for name in lake.names("") if name.startswith("ns=")]
    assert len(set(names)) == 2
    assert not any("key" in name for name in names)


def test_a_damaged_reply_says_what_to_do(settings: Settings, lake: Lake) -> None:
    replies = LakeReplies(settings)
    replies.put("default", REPLY)
    path = next(name for name in lake.names("ns=default/replies") if name.endswith(".json"))
    lake.put(path, b"{")
    with pytest.raises(LakeError, match="delete it"):
        replies.get("default", "key")
