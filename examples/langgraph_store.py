"""LangGraph's store, kept as memories: what a graph puts is recalled by every agent, with its history. Run it with

    pip install 'hindlake[recall,langgraph]'
    python examples/langgraph_store.py

A graph takes it as `builder.compile(store=store)`, and its nodes get it as `store`.
"""

from __future__ import annotations

import asyncio
import sys
from tempfile import mkdtemp

from hindlake import Memory, Settings
from hindlake.sdk.integrations.langgraph import HindlakeStore


async def node(store: HindlakeStore, user: str, said: str) -> str:
    """What a node of a graph does: it looks up what is known of its user, and notes what the user says."""
    known = await store.asearch(("memories", user), query=said, limit=1)
    await store.aput(("memories", user), "budget", {"text": said, "source": "chat"})
    return known[0].value["text"] if known else "nothing"


def main(home: str) -> None:
    """Two turns, and what is left of them."""
    with Memory(Settings.load(home=home, embedder="wordllama")) as memory:
        store = HindlakeStore(memory, subject=lambda namespace: namespace[-1])
        for said in ("My budget for a laptop is 5000.", "My budget for a laptop is 8000."):
            print("known before:", asyncio.run(node(store, "ann", said)))
        print("namespaces:", store.list_namespaces(prefix=("memories",)))
        print("item:", store.get(("memories", "ann"), "budget"))
        print(memory.context("Which laptop can Ann buy with her budget?", subject="ann").text)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
