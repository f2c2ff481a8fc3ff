"""A process of the log's kill test: it remembers, or it settles, until it is killed.

A writer prints each act only after its write has returned: that is what it acknowledged. Usage:

    log_worker.py write|settle HOME NAMESPACE NAME ENDPOINT
"""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import UTC, datetime

from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.errors import LakeError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.settings import S3Settings, Settings


def write(lake: Lake, namespace: str, name: str) -> None:
    """Add memories without a pause."""
    number = 0
    while True:
        act = f"{name}-{number:06d}"
        now = datetime.now(UTC)
        row = {
            "act": act, "at": now, "decision": "add", "id": f"m-{act}", "kind": "fact", "text": act, "state": "pending",
            "valid_from": now, "valid_to": END_OF_TIME,
        }  # fmt: skip
        for _ in range(3):  # a client that tries again after a failure, under the same name
            try:
                write_user_act(lake, namespace, [row], act)
            except LakeError:
                continue
            sys.stdout.write(f"{act}\n")
            sys.stdout.flush()
            break
        number += 1


def keep_settling(lake: Lake, namespace: str) -> None:
    """Settle without a pause."""
    while True:
        sys.stdout.write("at work\n")
        sys.stdout.flush()
        with contextlib.suppress(LakeError):
            settle(lake, namespace)
        time.sleep(0.01)


if __name__ == "__main__":
    role, home, namespace, name, endpoint = sys.argv[1:]
    keys = {"access_key_id": "test-access", "secret_access_key": "test-secret"} if endpoint else {}
    settings = Settings.load(home=home, s3=S3Settings(endpoint=endpoint, **keys))  # type: ignore[arg-type]
    lake = Lake.open(settings)
    if role == "write":
        write(lake, namespace, name)
    else:
        keep_settling(lake, namespace)
