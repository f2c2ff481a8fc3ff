"""Trying again what another try may cure: the one layer of retries between hindlake and the files of a lake."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import LakeError

_T = TypeVar("_T")

#: Failures that another try may cure are tried again this often, waiting longer each time: some 20 seconds in all.
TRIES = 8


def tried(act: Callable[[], _T], what: str, url: str) -> _T:
    """The result of an act on the files at an address; `what` says in an error what could not be done.

    `ConnectionError` and `TimeoutError` are tried again. Raises `LakeError` when that did not help, and for what no
    other try would cure; `FileNotFoundError` and `FileExistsError` pass.
    """
    for attempt in range(TRIES):
        try:
            return act()
        except (FileNotFoundError, FileExistsError):
            raise
        except PermissionError as error:
            raise LakeError(f"not allowed to {what} in {url}: check permissions and credentials") from error
        except (TimeoutError, ConnectionError) as error:
            if attempt == TRIES - 1:
                reason = str(error).split("\n", 1)[0]
                raise LakeError(f"can't {what} in {url}, tried {TRIES} times: {reason}") from error
            time.sleep(random.uniform(0.5, 1) * 0.1 * 2**attempt)
        except OSError as error:
            raise LakeError(f"can't {what} in {url}: {error}") from error
    raise AssertionError("unreachable")
