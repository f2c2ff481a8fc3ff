"""Rounds of chaos, as many as asked for, and what they came to.

PYTHONPATH=src:tests python -m chaos --rounds 200 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from chaos.disk import can_mount
from chaos.plan import draw
from chaos.rounds import Round, run_round
from chaos.template import Template
from servers.embeddings import Embeddings
from servers.s3 import s3_server


def main() -> int:
    """Run the rounds; 1 if one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="that of the first round; the next ones count on")
    parser.add_argument("--keep", type=Path, help="a folder for the files of rounds in which something was found")
    parser.add_argument("--log", type=Path, help="a file that gets a line of JSON for each round")
    chosen = parser.parse_args()
    for name in [name for name in os.environ if name.startswith(("HINDLAKE_", "AWS_"))]:
        del os.environ[name]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # processes and disks are cleared away then too
    can_fill = not can_mount()
    found = 0
    with s3_server() as s3, tempfile.TemporaryDirectory(prefix="hindlake-chaos-") as folder:
        template = Template(Path(folder))
        embeddings = Embeddings()
        for seed in range(chosen.seed, chosen.seed + chosen.rounds):
            done = run_round(draw(seed, can_fill=can_fill), s3.endpoint, embeddings, template, chosen.keep)
            print(told(done), flush=True)
            found += not done.is_right
            if chosen.log is not None:
                with chosen.log.open("a") as log:
                    log.write(json.dumps(as_row(done)) + "\n")
        embeddings.close()
    return 1 if found else 0


def told(done: Round) -> str:
    """A round in a line, and what was found in it below."""
    verdict = done.verdict
    said = [
        f"seed {done.plan.seed} {done.plan.place} {done.seconds:.1f} s: {sum(done.struck.values())} faults "
        f"({', '.join(f'{kind} {count}' for kind, count in sorted(done.struck.items()))}), acknowledged "
        f"{sum(verdict.acknowledged.values())}, lost {len(verdict.lost)}, doubled {len(verdict.doubled)}, "
        f"wrong {len(verdict.wrong)}, unclean {len(done.unclean)}"
    ]
    for what in (verdict.lost, verdict.doubled, verdict.wrong, done.unclean):
        said += [f"    {_short(one)}" for one in what[:5]]
    return "\n".join(said)


def _short(text: str) -> str:
    lines = text.strip().splitlines()
    return text.strip() if len(lines) < 3 else f"{lines[0][:200]} … {lines[-1][:300]}"


def as_row(done: Round) -> dict[str, object]:
    """A round as plain values."""
    verdict = done.verdict
    return {
        "seed": done.plan.seed, "place": done.plan.place, "seconds": round(done.seconds, 2), "struck": done.struck,
        "killed": done.killed, "ended": {f"{role} {code}": n for (role, code), n in done.ended.items()},
        "acknowledged": verdict.acknowledged, "lost": verdict.lost, "doubled": verdict.doubled,
        "wrong": verdict.wrong, "unclean": done.unclean, "refused": done.refused,
        "load": round(os.getloadavg()[0], 1), "time": time.strftime("%H:%M:%S"),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
