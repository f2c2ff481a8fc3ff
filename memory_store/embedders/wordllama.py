"""Static word vectors inside the `wordllama` wheel: fast, weaker, and not across languages."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EmbedderError
from .base import BaseEmbedder
from .calibration import CURVES

if TYPE_CHECKING:
    from .texts import Matrix

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


def _folder() -> Path | None:
    spec = find_spec("wordllama")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def tokenizer_file() -> Path | None:
    """The file of its tokenizer; None where the package is not installed."""
    folder = _folder()
    path = folder / _TOKENIZER if folder is not None else None
    return path if path is not None and path.is_file() else None


def why_not() -> str:
    """Why it can't be used on this machine; empty if it can."""
    folder = _folder()
    if folder is None:
        return "wordllama is not installed: run pip install 'hindlake[recall]'"
    missing = [name for name in (_WEIGHTS, _TOKENIZER) if not (folder / name).is_file()]
    if missing:
        return f"the installed wordllama lacks {' and '.join(missing)}: run pip install 'wordllama==0.4.0.post1'"
    return ""


class WordLlama(BaseEmbedder):
    """The mean of a text's token vectors.

    The package's files are read, its code is not imported: loading through it downloads when offline-only files are
    looked for in the wrong folder, and importing it reconfigures the root logger.
    """

    name = "wordllama-256@1"
    dim = 256
    most_characters = 20_000
    curves = CURVES["wordllama-256@1"]

    def __init__(self) -> None:
        folder = _folder()
        if folder is None or (reason := why_not()):
            raise EmbedderError(reason if folder is not None else why_not())
        import numpy as np
        from safetensors import safe_open
        from tokenizers import Tokenizer

        with safe_open(folder / _WEIGHTS, framework="numpy") as file:
            self._table: Matrix = np.ascontiguousarray(file.get_tensor("embedding.weight"), dtype=np.float32)
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_truncation()

    def _encode(self, texts: list[str], query: bool) -> Sequence[object]:
        import numpy as np

        rows: list[object] = []
        for text in texts:
            # One text at a time: a batch is padded to its longest text, and uses threads that a fork would break.
            ids = np.asarray(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
            ids = ids[ids < len(self._table)]
            rows.append(self._table[ids].mean(axis=0) if len(ids) else None)
        return rows
