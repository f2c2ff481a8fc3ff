"""Every error survives pickling, names its fix, and stands in the tree at the head of its file."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from hindlake.memory_store import errors
from hindlake.memory_store.errors import HindlakeError, MissingExtra

ALL = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, HindlakeError)]


@pytest.mark.parametrize("kind", ALL)
def test_an_error_survives_pickling(kind: type[HindlakeError]) -> None:
    error = kind("the reason: the fix")
    error.add_note("from a worker")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == "the reason: the fix"
    assert back.__notes__ == ["from a worker"]


def test_a_missing_extra_names_the_command_that_brings_it() -> None:
    error = pickle.loads(pickle.dumps(MissingExtra.needs("lancedb", "recall")))
    assert str(error) == "lancedb is not installed: run pip install 'hindlake[recall]'"


def test_the_tree_at_the_head_of_the_file_is_the_tree() -> None:
    drawn = re.findall(r"^    ([│ ├└─]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    parents: list[str] = []
    pairs = set()
    for indent, name in drawn:
        del parents[len(indent) // 4 :]
        pairs.add((name, parents[-1] if parents else "Exception"))
        parents.append(name)
    assert pairs == {(kind.__name__, kind.__base__.__name__) for kind in ALL if kind.__base__}
