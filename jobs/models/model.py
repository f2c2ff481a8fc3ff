"""The only door to a chat model: any OpenAI-compatible endpoint, structured answers, one retry layer, one ceiling.

Asking the same twice calls once: replies are kept verbatim by a hash of the question (`replies`). What one question
does wrong is in its answer; what no question could cure raises.
"""

from __future__ import annotations

import email.utils
import os
import random
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ...memory_store.errors import BudgetExceeded, MissingExtra, ModelError
from ...memory_store.settings import ModelSettings
from ...memory_store.telemetry.calls import model_call
from ...memory_store.telemetry.events import tell
from ...memory_store.telemetry.spending import spend
from .answers import MODES, Answer, Failure, Mode, failure_of_status, reply_of_body
from .budget import Budget, Hold, estimate_tokens
from .questions import Message, Question, question_of
from .reading import M, Reading, read_reply
from .replies import TOO_LONG, MemoryReplies, Reply, ReplyCache

if TYPE_CHECKING:
    import openai

#: Seconds that an endpoint may ask to wait; one that asks for more has no answer for this run.
MOST_WAIT = 60.0
#: Questions in a row that come back without a reply, until the endpoint counts as down.
MOST_LOST = 5
#: Bytes of a reply that are read.
_BODY = 32 << 20
_TEXT = len(MODES) - 1


@dataclass
class Tally:
    """What one question has used so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    latency_us: int = 0
    calls: int = 0
    estimated: bool = False


class ModelDoor:
    """Asks a model. Share one between the threads of a run; a pickled door opens its own connections."""

    def __init__(
        self,
        settings: ModelSettings,
        replies: ReplyCache | None = None,
        budget: Budget | None = None,
        *,
        pause: float = 0.5,
    ) -> None:
        """`pause` is the first wait between tries, in seconds; it doubles with each. Raises `MissingExtra`."""
        if find_spec("openai") is None:
            raise MissingExtra.needs("openai", "jobs")
        self.settings = settings
        self.replies = replies or MemoryReplies()
        #: What the run may use and has used
        self.budget = budget or Budget.of(settings)
        self.pause = pause
        self._start()

    def _start(self) -> None:
        self._slots = threading.BoundedSemaphore(self.settings.concurrency)
        self._lock = threading.Lock()
        self._made: tuple[int, openai.OpenAI] | None = None
        self._mode = 0
        self._proven = False
        self._doubts = 0
        self._dropped: frozenset[str] = frozenset()
        self._lost = 0
        self._not_before = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("settings", "replies", "budget", "pause")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def part(self, budget: Budget, calls: int = 0) -> ModelDoor:
        """A door to the same endpoint, and to the same replies, with another budget; with `calls`, no more than these
        are in flight at once.
        """
        settings = self.settings.model_copy(update={"concurrency": calls} if calls else {})
        return ModelDoor(settings, self.replies, budget, pause=self.pause)

    def ask(
        self,
        messages: Sequence[Message],
        schema: type[M],
        *,
        namespace: str,
        prompt_hash: str = "",
        purpose: str = "other",
    ) -> Answer[M]:
        """The answer to a question, as an instance of the schema. What it costs is counted for its `purpose`.

        A reply that was cut off is asked for once more with twice the room, one that holds no JSON once more as plain
        text; so at most two replies are paid for. Raises `BudgetExceeded` before a call that could pass the ceiling,
        and `ModelError` when the endpoint is down, refuses the key or the model, or calls are switched off.
        """
        tally, replies = Tally(), []
        best: Reading[M] | None = None
        limit, plain, error, too_long = self.settings.max_output_tokens, False, "", False
        for last in (False, True):
            question = question_of(
                self.settings, messages, schema,
                limit=limit, plain=plain, namespace=namespace, prompt_hash=prompt_hash, purpose=purpose,
            )  # fmt: skip
            reply = self.replies.get(namespace, question.key)
            if reply is None:
                got = self._pay(question, tally)
                if isinstance(got, Failure):
                    error, too_long = error or got.reason, got.too_long and best is None
                    break
                reply = got
            if reply.finish == TOO_LONG:
                error, too_long = error or reply.content, best is None
                break
            replies.append(reply)
            if reply.refusal:
                error = f"the model refused: {reply.refusal}"
                break
            reading = read_reply(reply.content, schema)
            cut = reading.cut or reply.finish == "length"
            best = reading if best is None or reading.value is not None else best
            error = f"the reply was cut off at {reply.output_tokens} tokens" if cut else reading.problem
            if last or not error or (reading.value is None and not cut and reply.mode == "text"):
                break
            limit, plain = (2 * limit, plain) if cut else (limit, True)
        return Answer(
            value=best.value if best else None,
            raw=replies[-1].content if replies else "",
            replies=tuple(replies),
            lost=best.lost if best else (),
            input_tokens=tally.input_tokens,
            output_tokens=tally.output_tokens,
            estimated=tally.estimated,
            cost=tally.cost,
            latency_us=tally.latency_us,
            calls=tally.calls,
            error=error,
            too_long=too_long,
        )

    def _pay(self, question: Question, tally: Tally) -> Reply | Failure:
        """Ask the endpoint, as often as it is worth it. Raises `ModelError` when no question can be answered."""
        self.check_allowed()
        estimate = question.estimate
        with self._slots:
            mode, tries, unsure = (_TEXT if question.plain else self._mode), 0, False
            was_begun = repeated = not self.replies.begin(question.namespace, question.key)
            while True:
                try:
                    hold = self.budget.reserve(estimate, question.limit)
                except BudgetExceeded:
                    if not was_begun:
                        self.replies.give_up(question.namespace, question.key)
                    raise
                dropped = self._dropped
                got = self._call(question, mode, dropped, hold, tally, repeated)
                if isinstance(got, Reply):
                    self._learn(question, mode, unsure)
                    return self.replies.put(question.namespace, got)
                retry = tries < self.settings.retries and got.wait <= MOST_WAIT
                if got.remedy == "adapt":
                    again = got.parameter not in dropped
                    self._dropped |= {got.parameter}
                elif got.remedy == "weaker" and got.sure:
                    mode, again = mode + 1, True
                elif got.remedy in ("again", "weaker") and retry:
                    if got.remedy == "weaker":
                        mode, unsure = mode + 1, True
                    pause = self._back_off_seconds(tries, got.wait)
                    tell(
                        "model_retried", model=self.settings.name, attempt=tries + 1, wait=round(pause, 3),
                        reason=got.kind,
                    )  # fmt: skip
                    time.sleep(pause)
                    tries, again = tries + 1, True
                else:
                    again = False
                if not again:
                    self.replies.give_up(question.namespace, question.key)
                    return self._give_up(got)
                repeated = False

    def _call(
        self, question: Question, mode: int, dropped: frozenset[str], hold: Hold, tally: Tally, repeated: bool
    ) -> Reply | Failure:
        """One call, timed and settled with the budget."""
        while (pause := self._not_before - time.monotonic()) > 0:
            time.sleep(pause)
        started = time.monotonic()
        try:
            with model_call("chat", self.settings.name, self.settings.base_url, question.limit) as call:
                got = self._send(question, MODES[mode], dropped)
                if isinstance(got, Failure):
                    call.fail(got.kind)
                else:
                    call.used(got.input_tokens, got.output_tokens, got.finish)
        except BaseException:  # whatever it is, other threads wait for what this call holds back
            paid = self.budget.settle(hold, hold.input_tokens, hold.output_tokens, failed=True, estimated=True)
            spend({(question.purpose, question.model): paid})
            raise
        latency = int((time.monotonic() - started) * 1e6)
        if isinstance(got, Failure):
            used = (hold.input_tokens, hold.output_tokens) if got.may_cost else (0, 0)
            estimated = got.may_cost
        else:
            if got.estimated:
                tokens = (hold.input_tokens, estimate_tokens(got.content))
                got = msgspec.structs.replace(got, input_tokens=tokens[0], output_tokens=tokens[1])
            used, estimated = (got.input_tokens, got.output_tokens), got.estimated
        paid = self.budget.settle(hold, *used, failed=isinstance(got, Failure), estimated=estimated, repeated=repeated)
        spend({(question.purpose, question.model): paid})
        tally.input_tokens += used[0]
        tally.output_tokens += used[1]
        tally.cost += paid.cost
        tally.latency_us += latency
        tally.calls += 1
        tally.estimated |= estimated
        return got if isinstance(got, Failure) else msgspec.structs.replace(got, cost=paid.cost, latency_us=latency)

    def _send(self, question: Question, mode: Mode, dropped: frozenset[str]) -> Reply | Failure:
        """One request on the wire. The whole of it, body included, has `timeout_seconds`."""
        import httpx2
        import openai

        deadline = time.monotonic() + self.settings.timeout_seconds
        completions = self.client.chat.completions.with_streaming_response
        try:
            with completions.create(**question.request(mode, dropped)) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > deadline or len(body) > _BODY:
                        return self._timed_out()
            return reply_of_body(bytes(body), question.key, mode)
        except httpx2.InvalidURL as error:
            return Failure(f"HINDLAKE_MODEL_BASE_URL is no address: {error}", "stop")
        except openai.APIStatusError as error:
            wait = wait_of(error.response.headers)
            return failure_of_status(error.status_code, error.response.text, wait, mode, self._proven)
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
            if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
                return Failure(f"the endpoint can't be reached: {cause}", "again", endpoint="gone")
            if isinstance(cause, httpx2.TimeoutException):
                return self._timed_out()
            return Failure(f"the connection broke: {cause}", "again", may_cost=True, endpoint="fails")

    def _timed_out(self) -> Failure:
        said = f"no whole reply in {self.settings.timeout_seconds:g} seconds"
        return Failure(said, "again", may_cost=True, endpoint="fails")

    def _learn(self, question: Question, mode: int, unsure: bool) -> None:
        """The endpoint answered: remember which mode it takes. One doubt is no proof, two are."""
        with self._lock:
            self._lost = 0
            if question.plain:
                return
            if mode == self._mode:
                self._proven = True
                return
            self._doubts += unsure
            if mode > self._mode and (not unsure or self._doubts >= 2):
                self._mode, self._proven = mode, True

    def _give_up(self, failure: Failure) -> Failure:
        """Pass on what only this question suffers from; raise when it is the endpoint."""
        where = f"{self.settings.base_url} ({self.settings.name})"
        if failure.remedy == "stop" or failure.endpoint == "gone":
            raise ModelError(
                f"{where} can't be asked: {failure.reason}; check HINDLAKE_MODEL_BASE_URL and that it is up"
            )
        if failure.endpoint:
            with self._lock:
                self._lost += 1
                if self._lost >= MOST_LOST:
                    raise ModelError(
                        f"{where} left {self._lost} questions in a row without a reply, the last with: "
                        f"{failure.reason}; run again when it is well (what was paid for is kept)"
                    )
        return failure

    def _back_off_seconds(self, tries: int, wait: float) -> float:
        """How long to wait before the next try. What the endpoint asked for holds for every thread."""
        if wait:
            with self._lock:
                self._not_before = max(self._not_before, time.monotonic() + wait)
        return wait + self.pause * (1 << tries) * random.uniform(0.5, 1.0)

    @property
    def client(self) -> openai.OpenAI:
        """A client of this process: a forked child must not share its parent's connections."""
        import openai

        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                # A prompt goes where the settings say: a redirect is not followed. Certificates are loaded (half a
                # second of work) only where they are used.
                is_secure = self.settings.base_url.startswith("https:")
                http = openai.DefaultHttpx2Client(follow_redirects=False, verify=is_secure)
                weakref.finalize(self, http.close)
                client = openai.OpenAI(
                    base_url=self.settings.base_url,
                    api_key=self.settings.api_key.get_secret_value().strip() or "none",
                    timeout=self.settings.timeout_seconds,
                    max_retries=0,
                    http_client=http,
                )
                self._made = (os.getpid(), client)
            return self._made[1]

    def check_allowed(self) -> None:
        """Raise `ModelError` unless there is an endpoint that may be called."""
        url = self.settings.base_url
        if not url:
            raise ModelError("no model is set: set HINDLAKE_MODEL_BASE_URL, such as http://127.0.0.1:8080/v1")
        if not self.settings.api_key.get_secret_value().strip().isascii():
            raise ModelError("HINDLAKE_MODEL_API_KEY holds characters that no key has: copy it anew")
        if self.settings.calls == "off" and not _is_loopback(url):
            raise ModelError(
                f"calls to models are off, so {url} is not asked (this machine's own addresses are allowed): set "
                "HINDLAKE_MODEL_CALLS=on"
            )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def wait_of(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks to wait: `Retry-After` as seconds or as a date, or `Retry-After-Ms`."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "")
        try:
            return max(0.0, float(said) * unit)
        except ValueError:
            pass
        try:
            return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
        except ValueError:
            continue
    return 0.0
