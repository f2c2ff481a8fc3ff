"""The provider's Batch API: files of questions go up, batches are made of them, files of answers come down.

Nothing here knows what the questions are about, and nothing is kept here.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...memory_store.errors import ModelError
from .model import MOST_WAIT, ModelDoor, wait_of

if TYPE_CHECKING:
    from openai.types import Batch

_T = TypeVar("_T")

#: The key of a batch's metadata that says which of ours it is.
_MARK = "hindlake_batch"
_LATER = (408, 409, 425, 429)
_MESSAGE = 300
#: How far clocks may be apart.
_SKEW = timedelta(days=1)


class RemoteBatch(NamedTuple):
    """A batch as the provider shows it."""

    id: str
    #: validating · in_progress · finalizing · cancelling · completed · expired · cancelled · failed
    status: str
    input_file: str
    #: Files of answers and of errors; empty: there is none
    output_file: str
    error_file: str
    #: Code and message of what is wrong with it as a whole
    reasons: tuple[tuple[str, str], ...]

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ("completed", "expired", "cancelled", "failed")


class BatchApi:
    """The calls. What another try may cure is tried again as the settings say; the rest raises `ModelError`."""

    def __init__(self, door: ModelDoor) -> None:
        self._door = door

    def upload(self, name: str, file: IO[bytes]) -> str:
        """Send a file of questions, and return its name there. A try that broke off may leave a file without use."""

        def send() -> str:
            file.seek(0)
            return self._door.client.files.create(file=(name, file), purpose="batch").id

        return self._tried(send, "send a file to")

    def create(self, file_id: str, batch_id: str, since: datetime) -> RemoteBatch | None:
        """Make a batch of a file.

        A call that broke off is not made again: what came of it is looked up, and None says that this is not known.
        Raises `ModelError` when the provider refuses.
        """
        import openai

        try:
            made = self._door.client.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={_MARK: batch_id},
            )
        except openai.APIError as error:
            if isinstance(error, openai.APIStatusError) and error.status_code < 500:
                raise self._error("make a batch at", error) from error
            with contextlib.suppress(ModelError):
                return self.find(batch_id, since)
            return None
        return _remote(made)

    def find(self, batch_id: str, since: datetime) -> RemoteBatch | None:
        """The batch that was made for one of ours, None if it never got there."""
        after: str | None = None
        oldest = (since - _SKEW).timestamp()
        while True:
            listed = self._page(after)
            for batch in listed:
                if (batch.metadata or {}).get(_MARK) == batch_id:
                    return _remote(batch)
            if not listed or listed[-1].created_at < oldest or listed[-1].id == after:
                return None
            after = listed[-1].id

    def get(self, remote_id: str) -> RemoteBatch | None:
        """A batch, None if the provider does not know it any more."""
        found = self._found(lambda: self._door.client.batches.retrieve(remote_id), "ask for a batch at")
        return None if found is None else _remote(found)

    def lines(self, file_id: str) -> list[str] | None:
        """The lines of a file, None if it is gone."""
        read = self._found(lambda: self._door.client.files.content(file_id).content, "read a file of")
        return None if read is None else read.decode("utf-8", "replace").split("\n")

    def delete(self, *file_ids: str) -> None:
        """Remove files that are done with; one that stays costs no more than its room."""
        import openai

        for file_id in filter(None, file_ids):
            try:
                self._door.client.files.delete(file_id)
            except openai.APIError:
                continue

    def _page(self, after: str | None) -> list[Batch]:
        chosen: dict[str, Any] = {"after": after} if after else {}
        return self._tried(lambda: self._door.client.batches.list(limit=100, **chosen).data, "list the batches of")

    def _found(self, act: Callable[[], _T], what: str) -> _T | None:
        """What is asked for, None if the provider says that there is no such thing."""
        try:
            return self._tried(act, what)
        except ModelError as error:
            import openai

            if isinstance(error.__cause__, openai.NotFoundError):
                return None
            raise

    def _tried(self, act: Callable[[], _T], what: str) -> _T:
        """Do something that may be done twice."""
        import openai

        self._door.check_allowed()
        for attempt in range(self._door.settings.retries + 1):
            try:
                return act()
            except openai.APIError as error:
                if attempt == self._door.settings.retries or not _may_pass(error):
                    raise self._error(what, error) from error
                wait = wait_of(error.response.headers) if isinstance(error, openai.APIStatusError) else 0.0
                time.sleep(min(wait, MOST_WAIT) + self._door.pause * 2**attempt * random.uniform(0.5, 1.0))
        raise AssertionError("unreachable")

    def _error(self, what: str, error: Exception) -> ModelError:
        said = " ".join(str(error).split())[:_MESSAGE]
        return ModelError(
            f"can't {what} {self._door.settings.base_url}: {said}; check HINDLAKE_MODEL_BASE_URL, the key and that it "
            "has a Batch API (HINDLAKE_MODEL_MODE=direct needs none), then run again: what was sent is not lost"
        )


def _may_pass(error: Exception) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in _LATER or error.status_code >= 500
    return True


def _remote(batch: Batch) -> RemoteBatch:
    errors = (batch.errors.data or []) if batch.errors else []
    return RemoteBatch(
        id=batch.id,
        status=str(batch.status),
        input_file=batch.input_file_id or "",
        output_file=batch.output_file_id or "",
        error_file=batch.error_file_id or "",
        reasons=tuple((str(error.code or ""), str(error.message or "")) for error in errors),
    )
