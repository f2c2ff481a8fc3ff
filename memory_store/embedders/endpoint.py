"""Embedding models behind any OpenAI-compatible endpoint (R30).

    openai:MODEL                                        the model as it is
    openai:MODEL?passage=passage: &query=query:         what is put before texts to be found, and before queries
    openai:MODEL?dim=256                                shorter vectors, of a model that can make them

The whole of it is the embedder's name, so vectors of two prefixes or lengths are never compared.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from ..errors import EmbedderError, MissingExtra
from ..settings import ModelSettings
from ..telemetry.calls import model_call
from ..telemetry.spending import Usage, spend
from ..text.tokens import estimate_tokens
from .base import BaseEmbedder
from .calibration import CURVES

if TYPE_CHECKING:
    import openai

#: Texts of one request.
BATCH = 64
#: A text that the server refuses as too long is halved down to this many characters.
_LEAST = 200
#: Answers that say "this input", not "this server": the texts are then sent one by one.
_INPUT_REFUSED = (400, 413, 422)
#: Answers that another try may cure, beside those of 500 and more.
_AGAIN = (408, 409, 425, 429)
#: Longest wait that an endpoint is granted between two tries, in seconds.
_MOST_WAIT = 60.0


class Meter(Protocol):
    """What counts calls, and may hold them back."""

    def reserve(self, texts: Sequence[str]) -> Any:
        """Wait until a call may be made, and return what `settle` is told. Raises `BudgetExceeded`."""
        ...

    def settle(self, hold: Any, tokens: int | None, *, failed: bool) -> Usage:
        """A call is over: it used so many tokens, None if no one said how many. Returns what counts as used."""
        ...


class _Free:
    """Holds nothing back, and knows no price."""

    def reserve(self, texts: Sequence[str]) -> Sequence[str]:
        """Any call may be made."""
        return texts

    def settle(self, hold: Sequence[str], tokens: int | None, *, failed: bool) -> Usage:
        """What no one counted is what is estimated."""
        used = sum(map(estimate_tokens, hold)) if tokens is None else tokens
        return Usage(1, int(failed), int(tokens is None), 0, used)


class Endpoint(BaseEmbedder):
    """A model named by the setting `embedder = "openai:MODEL"`, at `model.base_url`.

    A text that the server refuses or answers with no proper vector fails alone, with the reason; a server that can't
    be reached, or that refuses the key or the model, raises `EmbedderError`.
    """

    most_characters = 8_000
    curves = CURVES["endpoint"]

    def __init__(self, model: str, settings: ModelSettings, meter: Meter | None = None, dim: int = 0) -> None:
        """`dim`: the numbers of a vector, from who knows them; else the endpoint is asked."""
        if find_spec("openai") is None:
            raise MissingExtra.needs("openai", "jobs")
        if not model:
            raise EmbedderError("the embedder 'openai:' names no model: write openai:MODEL")
        if not settings.base_url:
            raise EmbedderError(
                f"the embedder openai:{model} has no endpoint: set HINDLAKE_MODEL_BASE_URL, such as "
                "http://127.0.0.1:8080/v1"
            )
        self.name = f"openai:{model}"
        self._model, _, options = model.partition("?")
        said = {name: values[-1] for name, values in parse_qs(options).items()}
        if unknown := said.keys() - {"passage", "query", "dim"} or (
            said.keys() & {"dim"} and not _is_size(said["dim"])
        ):
            raise EmbedderError(
                f"the embedder {self.name} has wrong options ({unknown}): passage, query and dim=NUMBER"
            )
        self._passage, self._query = said.get("passage", ""), said.get("query", "")
        self._shorter = int(said.get("dim", 0))
        self._dim = self._shorter or dim
        self._url = settings.base_url
        self._settings = settings
        self._meter: Meter = meter or _Free()
        self._made: tuple[int, openai.OpenAI] | None = None
        self._lock = threading.Lock()

    @property
    def _client(self) -> openai.OpenAI:
        """A client of this process: a forked child must not share its parent's connections."""
        import openai

        if self._made is None or self._made[0] != os.getpid():
            client = openai.OpenAI(
                base_url=self._url,
                api_key=self._settings.api_key.get_secret_value() or "none",
                timeout=self._settings.timeout_seconds,
                max_retries=0,  # `_ask` tries again, so that each try is counted
            )
            self._made = (os.getpid(), client)
        return self._made[1]

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Numbers of one vector; the first look asks the endpoint."""
        with self._lock:
            if not self._dim:
                row = self._ask(["dimension"])[0]
                if not isinstance(row, list) or not row:
                    raise EmbedderError(f"{self._url} returned no vector for a test text of {self._model}: check it")
                self._dim = len(row)
        return self._dim

    def _encode(self, texts: list[str], query: bool) -> Sequence[object]:
        before = self._query if query else self._passage
        texts = [before + text for text in texts] if before else texts
        rows: list[object] = []
        for start in range(0, len(texts), BATCH):
            some = texts[start : start + BATCH]
            got = self._ask(some)
            rows.extend(row if self._is_vector(row) else self._alone(text) for text, row in zip(some, got, strict=True))
        return rows

    def _is_vector(self, row: object) -> bool:
        return isinstance(row, list) and len(row) == self.dim and all(isinstance(number, float) for number in row)

    def _alone(self, text: str) -> object:
        """The vector of one text that failed in company: as long as it is refused, its first half is tried."""
        while (row := self._ask([text])[0]) is None and len(text) // 2 >= _LEAST:
            text = text[: len(text) // 2]
        return row

    def _ask(self, texts: list[str]) -> list[object]:
        """One answer a text, None where there is none. A refused request answers None for all of its texts."""
        if self._settings.calls == "off":
            raise EmbedderError(f"{self.name} may not be called: HINDLAKE_MODEL_CALLS is off")
        tries = 0
        while True:
            hold = self._meter.reserve(texts)
            reply, refused, wait = self._call(texts, hold, last=tries >= self._settings.retries)
            if reply is not None or refused:
                break
            time.sleep(min(wait or 0.5 * 2**tries * random.uniform(0.5, 1), _MOST_WAIT))
            tries += 1
        rows: list[object] = [None] * len(texts)
        for place, item in enumerate(reply.data or () if reply is not None else ()):
            index = getattr(item, "index", None)
            where = index if isinstance(index, int) else place
            if 0 <= where < len(rows):
                vector = getattr(item, "embedding", None)
                rows[where] = [_number(x) for x in vector] if isinstance(vector, list) else None
        return rows

    def _call(self, texts: list[str], hold: Any, *, last: bool) -> tuple[Any, bool, float]:
        """One request: its reply if there is one, whether its texts are refused, and how long to wait for another try.

        Raises `EmbedderError` where no other try helps, and at the `last`.
        """
        import openai

        more: dict[str, Any] = {"dimensions": self._shorter} if self._shorter else {}
        try:
            # Plain floats: as base64, the client would fail on the whole reply for one null in it.
            with model_call("embeddings", self._model, self._url) as call:
                reply: Any = self._client.embeddings.create(
                    model=self._model, input=texts, encoding_format="float", **more
                )
                call.used(getattr(getattr(reply, "usage", None), "prompt_tokens", None))
        except openai.APIStatusError as error:
            self._settle(hold, 0, failed=True)
            if error.status_code in _INPUT_REFUSED:
                return None, True, 0.0
            if not last and (error.status_code in _AGAIN or error.status_code >= 500):
                wait = error.response.headers.get("retry-after", "")
                return None, False, float(wait) if wait.replace(".", "", 1).isdigit() else 0.0
            raise EmbedderError(
                f"{self._url} refused to embed with {self._model} (HTTP {error.status_code}): check "
                "HINDLAKE_MODEL_API_KEY and the model's name"
            ) from error
        except (openai.APIError, ValueError) as error:
            self._settle(hold, None, failed=True)
            if not last and isinstance(error, openai.APIConnectionError):
                return None, False, 0.0
            raise EmbedderError(
                f"{self._url} could not embed with {self._model} ({error}): check HINDLAKE_MODEL_BASE_URL and that "
                "the server is up"
            ) from error
        except BaseException:
            self._settle(hold, None, failed=True)
            raise
        used = getattr(getattr(reply, "usage", None), "total_tokens", None)
        self._settle(hold, used if isinstance(used, int) and used > 0 else None, failed=False)
        return reply, False, 0.0

    def _settle(self, hold: Any, tokens: int | None, *, failed: bool) -> None:
        spend({("embed", self._model): self._meter.settle(hold, tokens, failed=failed)})


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _number(value: object) -> object:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
