"""Embedding models behind any OpenAI-compatible endpoint (R30)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import EmbedderError, MissingExtra
from ..settings import ModelSettings
from .base import BaseEmbedder
from .calibration import CURVES

if TYPE_CHECKING:
    import openai

#: Texts of one request.
_BATCH = 64
#: A text that the server refuses as too long is halved down to this many characters.
_LEAST = 200
#: Answers that say "this input", not "this server": the texts are then sent one by one.
_INPUT_REFUSED = (400, 413, 422)


class Endpoint(BaseEmbedder):
    """A model named by the setting `embedder = "openai:MODEL"`, at `model.base_url`.

    A text that the server refuses or answers with no proper vector fails alone, with the reason; a server that can't
    be reached, or that refuses the key or the model, raises `EmbedderError`.
    """

    most_characters = 8_000
    curves = CURVES["endpoint"]

    def __init__(self, model: str, settings: ModelSettings) -> None:
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
        self._model = model
        self._url = settings.base_url
        self._settings = settings
        self._made: tuple[int, openai.OpenAI] | None = None
        self._dim = 0
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
                max_retries=self._settings.retries,
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
        rows: list[object] = []
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
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
        import openai

        if self._settings.calls == "off":
            raise EmbedderError(f"{self.name} may not be called: HINDLAKE_MODEL_CALLS is off")
        try:
            # Plain floats: as base64, the client would fail on the whole reply for one null in it.
            reply: Any = self._client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        except openai.APIStatusError as error:
            if error.status_code in _INPUT_REFUSED:
                return [None] * len(texts)
            raise EmbedderError(
                f"{self._url} refused to embed with {self._model} (HTTP {error.status_code}): check "
                "HINDLAKE_MODEL_API_KEY and the model's name"
            ) from error
        except (openai.APIError, ValueError) as error:
            raise EmbedderError(
                f"{self._url} could not embed with {self._model} ({error}): check HINDLAKE_MODEL_BASE_URL and that "
                "the server is up"
            ) from error
        rows: list[object] = [None] * len(texts)
        for place, item in enumerate(reply.data or ()):
            index = getattr(item, "index", None)
            where = index if isinstance(index, int) else place
            if 0 <= where < len(rows):
                vector = getattr(item, "embedding", None)
                rows[where] = [_number(x) for x in vector] if isinstance(vector, list) else None
        return rows


def _number(value: object) -> object:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
