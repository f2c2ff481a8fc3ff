"""A process of the tests of generations: it searches, writes, or re-indexes, over a home with the models of `servers`.

search_worker.py read HOME URL ACKED STOP       searches until the file STOP is there; prints what it saw as JSON
search_worker.py write HOME URL ACKED STOP      remembers one statement after the other; ACKED grows by each one's place
search_worker.py reindex HOME URL MODEL         re-indexes once; prints whether readers were switched
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from hindlake.jobs.reindex import reindex
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import ModelSettings, Settings
from hindlake.sdk.memory import Memory

sys.path.insert(0, str(Path(__file__).parent.parent))
from servers.embeddings import asked, said

#: Places from which on the writer writes.
FRESH = 10_000


def settings_of(home: str, url: str) -> Settings:
    """The settings of every process of these tests."""
    return Settings.load(home=home, embedder="openai:a", model=ModelSettings(base_url=url, calls="on"))


def read(home: str, url: str, acked: str, stop: str) -> dict[str, object]:
    """Search for what was there, and for what was written since."""
    searches = 0
    seen: dict[str, list[object]] = {"errors": [], "mixed": [], "lost": []}
    draw = random.Random()
    with Memory(settings_of(home, url)) as memory:
        print("ready", flush=True)
        while not Path(stop).exists():
            fresh = int(Path(acked).read_text() or 0)
            is_fresh = fresh > FRESH and draw.random() < 0.3
            place = draw.randrange(FRESH, fresh) if is_fresh else draw.randrange(60)
            searches += 1
            try:
                hits = memory.search(asked(place))
            except Exception as error:  # what a reader meets is what is tested
                seen["errors"].append(f"{type(error).__name__}: {error}")
                continue
            if not hits or hits[0].text != said(place):
                seen["lost" if is_fresh else "mixed"].append(place)
    return {"searches": searches, **seen}


def write(home: str, url: str, acked: str, stop: str) -> dict[str, object]:
    """Write, and say so once it is kept."""
    place = FRESH
    with Memory(settings_of(home, url)) as memory:
        print("ready", flush=True)
        while not Path(stop).exists():
            memory.remember(said(place))
            place += 1
            whole = Path(f"{acked}.new")
            whole.write_text(str(place))
            whole.replace(acked)
            time.sleep(0.2)
    return {"written": place - FRESH}


def main(what: str, home: str, url: str, *rest: str) -> None:
    """Do it, and print what came of it."""
    if what == "reindex":
        print("ready", flush=True)
        report = reindex(Lake.open(settings_of(home, url)), settings_of(home, url), SystemClock(), rest[0], version="t")
        print(json.dumps({"switched": report.switched, "reason": report.reason}), flush=True)
        return
    work = read if what == "read" else write
    print(json.dumps(work(home, url, *rest)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
