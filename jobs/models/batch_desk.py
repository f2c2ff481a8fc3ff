"""The desk of the Batch API: collects what is finished, sends what is new, and knows what is out (N7).

Each step leaves a file in the lake before the next is taken (`memory_store.records.batches`), so that a run that is
killed anywhere is continued by the next. Replies go where those of single calls go; who asks again finds them there.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import IO, Literal, cast

import msgspec

from ...memory_store.clock import Clock
from ...memory_store.errors import BudgetExceeded, ModelError
from ...memory_store.files.lake import Lake
from ...memory_store.records.batches import (
    AskedQuestion,
    DoneBatch,
    OpenBatch,
    Out,
    SentBatch,
    batches_out,
    is_over,
    last_done,
    new_batch_id,
    write_done,
    write_open,
    write_sent,
)
from ...memory_store.telemetry.spending import Parts
from .answers import MODES, Failure, Mode
from .batch_api import BatchApi, RemoteBatch
from .batch_results import Results
from .budget import Budget, Forecast, Usage
from .model import ModelDoor
from .questions import Question
from .replies import TOO_LONG, Reply

#: Replies that are put into the lake at once.
_WRITERS = 8
#: What a provider says of a batch for which there is no room in its queue.
_FULL = ("token_limit", "limit_exceeded", "too_many")

Status = Literal["completed", "expired", "cancelled", "failed", "unsent", "gone"]


class BatchDesk:
    """Sends and collects the batches of one namespace. `collect` comes first: it finds out what is out."""

    def __init__(self, lake: Lake, namespace: str, door: ModelDoor, run_id: str, clock: Clock) -> None:
        self._lake, self._namespace, self._run_id, self._clock = lake, namespace, run_id, clock
        self._door, self._budget, self._settings = door, door.budget, door.settings
        self._api = BatchApi(door)
        #: What a call costs in a batch, though the run that collects it may ask one by one
        self._prices = Budget.of(self._settings.model_copy(update={"mode": "batch"}))
        self._grace = timedelta(minutes=self._settings.batch_grace_minutes)
        self._tries: dict[str, int] = {}
        self._file: _File | None = None
        self._take_over(last_done(lake, namespace))
        #: Keys of the questions whose answers are awaited
        self.out: set[str] = set()
        #: Why questions can't be answered, by key, until the next run asks them again
        self.failed: dict[str, str] = {}
        #: What the batches that were collected have used, by purpose and model
        self.spent: Parts = {}
        #: What they were forecast to use
        self.forecast = Forecast()
        #: collected: replies that came; asked: questions that were sent
        self.counts: Counter[str] = Counter()
        #: Whether something was not sent because it would pass the ceiling
        self.stopped = False
        #: Why the provider takes no questions; empty if it does
        self.failure = ""

    @property
    def usage(self) -> Usage:
        """What the batches that were collected have used."""
        return sum(self.spent.values(), Usage())

    def collect(self) -> None:
        """Take in the batches that are over, and hold back in the budget what the others may use.

        Raises `ModelError` when the provider can't be asked.
        """
        waiting = [out for out in batches_out(self._lake, self._namespace) if self._is_ours(out.batch)]
        for out in waiting:
            self._budget.set_aside(out.batch.tokens, out.batch.cost)
        for out in waiting:
            sent = out.sent or self._found(out.batch)
            remote = self._api.get(sent.remote_id) if sent else None
            if (sent and remote and not remote.is_over) or (sent is None and self._is_young(out.batch)):
                self.out.update(question.key for question in out.batch.questions)
            elif sent is None:
                self._close(out.batch, _results(out.batch), "unsent")
            else:
                self._take(out.batch, remote)

    def submit(self, questions: Iterable[Question]) -> None:
        """Put questions into the next batch, which goes off when it is full; those that are out are left out."""
        for question in questions:
            if question.key in self.out or (self._file and question.key in self._file.keys) or self.failure:
                continue
            line = _line(question, self._mode, self._dropped)
            if self._file and (len(self._file.asked) >= self._most or self._file.size + len(line) > self._most_bytes):
                self.flush()
            try:
                hold = self._budget.reserve(question.estimate, question.limit, wait=False)
            except BudgetExceeded:
                self.stopped = True
                continue
            self._file = self._file or _File()
            tries = self._tries.get(question.key, 0)
            asked = AskedQuestion(question.key, question.estimate, question.limit, question.plain, tries)
            self._file.add(line, asked, hold.input_tokens + hold.output_tokens, hold.cost)

    def flush(self) -> None:
        """Send the batch that is being filled. Raises `ModelError` when the provider does not take it."""
        file, self._file = self._file, None
        if file is not None:
            with file.lines:
                self._send(file)

    def _send(self, file: _File) -> None:
        batch = OpenBatch(
            batch_id=new_batch_id(),
            at=self._clock.now(),
            run=self._run_id,
            base_url=self._settings.base_url,
            model=self._settings.name,
            mode=self._mode,
            dropped=self._dropped,
            questions=tuple(file.asked),
            tokens=file.tokens,
            cost=file.cost,
        )
        write_open(self._lake, self._namespace, batch)
        began = time.monotonic()
        try:
            file_id = self._api.upload(f"hindlake-{batch.batch_id}.jsonl", file.lines)
            is_late = bool(self._grace) and time.monotonic() - began > self._grace.total_seconds() / 2
            if is_late or is_over(self._lake, self._namespace, batch.batch_id):
                self._api.delete(file_id)
                raise ModelError(
                    f"sending a batch took more than half of {self._settings.batch_grace_minutes} minutes: raise "
                    "HINDLAKE_MODEL_BATCH_GRACE_MINUTES or lower HINDLAKE_MODEL_BATCH_MB"
                )
            remote = self._api.create(file_id, batch.batch_id, batch.at)
        except ModelError:
            self._close(batch, _results(batch), "unsent")
            raise
        if remote is None:
            raise ModelError(
                f"{self._settings.base_url} did not say whether it took a batch; run again in "
                f"{self._settings.batch_grace_minutes} minutes: if it did, nothing is sent twice"
            )
        write_sent(self._lake, self._namespace, batch.batch_id, SentBatch(remote_id=remote.id, file_id=file_id))
        self.counts["asked"] += len(file.asked)
        self.out.update(file.keys)

    def _take_over(self, before: DoneBatch | None) -> None:
        """Begin with what the last batch taught of this model."""
        self._mode: Mode = "json_schema"
        self._dropped: tuple[str, ...] = ()
        self._most = self._settings.batch_requests
        self._most_bytes = self._settings.batch_mb * 1_000_000
        if before and before.base_url == self._settings.base_url and before.model == self._settings.name:
            self._mode = before.mode if before.mode in MODES else self._mode
            self._dropped = before.dropped
            self._most = min(self._most, before.most or self._most)
            self._budget.learn(before.ratio)

    def _is_ours(self, batch: OpenBatch) -> bool:
        """Whether a batch lies at the endpoint of the settings. One that does not is left alone until it does."""
        return batch.base_url == self._settings.base_url

    def _is_young(self, batch: OpenBatch) -> bool:
        """Whether another run may be sending a batch just now."""
        return self._clock.now() - batch.at < self._grace

    def _found(self, batch: OpenBatch) -> SentBatch | None:
        """A batch that was begun by a run that died before it noted that the provider has it."""
        remote = self._api.find(batch.batch_id, batch.at)
        if remote is None:
            return None
        sent = SentBatch(remote_id=remote.id, file_id=remote.input_file)
        write_sent(self._lake, self._namespace, batch.batch_id, sent)
        return sent

    def _take(self, batch: OpenBatch, remote: RemoteBatch | None) -> None:
        """Keep what came of a batch that is over, then note that it is."""
        results = _results(batch)
        is_lost = remote is None
        for place, file_id in enumerate((remote.output_file, remote.error_file) if remote else ()):
            lines = self._api.lines(file_id) if file_id else ()
            is_lost = is_lost or (lines is None and place == 0)
            results.read(lines or ())
        results.replies = {key: self._priced(reply) for key, reply in results.replies.items()}
        too_long = [
            Reply(key, failure.reason, finish=TOO_LONG) for key, failure in results.failures.items() if failure.too_long
        ]
        self._keep([*results.replies.values(), *too_long])
        self._learn(batch, results)
        for key, failure in results.failures.items():
            self._judge(results.asked[key], failure, batch)
        reasons = "; ".join(f"{code} {message}".strip() for code, message in (remote.reasons if remote else ()))
        self._miss(batch, results, remote, reasons)
        status = cast(Status, remote.status) if remote else "gone"
        if status == "completed" and len(batch.questions) >= self._most:
            self._most = min(2 * self._most, self._settings.batch_requests)
        used = self._used(results, is_lost)
        if self._close(batch, results, status, reasons, used):
            part = ("reflect", batch.model)
            self.spent[part] = self.spent.get(part, Usage()) + used
            answers = sum(question.limit for question in batch.questions)
            self.forecast += Forecast(len(batch.questions), batch.tokens - answers, answers, batch.cost)
            self.counts["collected"] += len(results.replies)
        if remote:
            self._api.delete(remote.input_file, remote.output_file, remote.error_file)

    def _priced(self, reply: Reply) -> Reply:
        return msgspec.structs.replace(reply, cost=self._prices.price(reply.input_tokens, reply.output_tokens))

    def _keep(self, replies: Sequence[Reply]) -> None:
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(lambda reply: self._door.replies.put(self._namespace, reply), replies))

    def _learn(self, batch: OpenBatch, results: Results) -> None:
        """What the next batch is to do otherwise."""
        failures = results.failures.values()
        new = {one.parameter for one in failures if one.remedy == "adapt"}
        self._dropped = tuple(sorted({*self._dropped, *batch.dropped, *new}))
        is_weaker = any(one.remedy == "weaker" for one in failures)
        if is_weaker and batch.mode == self._mode and self._mode != MODES[-1]:
            self._mode = MODES[MODES.index(self._mode) + 1]
        counted = [
            reply.input_tokens / results.asked[key].estimate
            for key, reply in results.replies.items()
            if not reply.estimated and results.asked[key].estimate
        ]
        self._budget.learn(max(counted, default=1.0))

    def _judge(self, question: AskedQuestion, failure: Failure, batch: OpenBatch) -> None:
        """Whether a question that came back without a reply is asked again in this run."""
        if failure.too_long:
            return
        if failure.remedy == "stop":
            self.failure = self.failure or failure.reason
        elif failure.remedy == "give_up" or (failure.remedy == "adapt" and failure.parameter in batch.dropped):
            self.failed[question.key] = failure.reason
        elif failure.remedy != "adapt" and not (failure.remedy == "weaker" and self._mode != batch.mode):
            self._try_again(question, failure.reason)

    def _miss(self, batch: OpenBatch, results: Results, remote: RemoteBatch | None, reasons: str) -> None:
        """Questions of which nothing came back are asked again; a batch that was refused as a whole says why."""
        if remote and remote.status == "failed":
            if any(part in code for code, _ in remote.reasons for part in _FULL):
                self._most = max(1, len(batch.questions) // 2)
            else:
                self.failure = self.failure or f"the batch was refused: {reasons or 'no reason was given'}"
            return
        status = remote.status if remote else "not there any more"
        for question in results.missing():
            self._try_again(question, f"its batch, which is {status}, says nothing of it")

    def _try_again(self, question: AskedQuestion, reason: str) -> None:
        """Ask again in the next batch, but no more often than the settings say; then it is a row, for this run."""
        if question.tries >= self._settings.retries:
            self.failed[question.key] = f"{reason} (asked in {question.tries + 1} batches)"
        else:
            self._tries[question.key] = question.tries + 1

    def _used(self, results: Results, is_lost: bool) -> Usage:
        """What a batch has used. Answers that were made and lost are counted as forecast, and paid for again."""
        replies = results.replies.values()
        usage = Usage(
            calls=len(results.replies) + len(results.failures),
            failed_calls=len(results.failures),
            estimated_calls=sum(reply.estimated for reply in replies),
            input_tokens=sum(reply.input_tokens for reply in replies),
            output_tokens=sum(reply.output_tokens for reply in replies),
            cost=sum(reply.cost for reply in replies),
        )
        for question in results.missing() if is_lost else ():
            forecast = self._prices.forecast([question.estimate], question.limit)
            usage += Usage(1, 1, 1, 1, forecast.input_tokens, forecast.output_tokens, forecast.cost)
        return usage

    def _close(
        self, batch: OpenBatch, results: Results, status: Status, reason: str = "", used: Usage | None = None
    ) -> bool:
        """Note that a batch is over, and give back what was held for it. False if another run was first."""
        used = used or Usage()
        done = DoneBatch(
            batch_id=batch.batch_id,
            at=self._clock.now(),
            run=self._run_id,
            base_url=batch.base_url,
            model=batch.model,
            status=status,
            reason=reason,
            answered=len(results.replies),
            failed=len(results.failures),
            unanswered=len(results.missing()),
            strange=results.strange,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost=used.cost,
            mode=self._mode,
            dropped=self._dropped,
            most=self._most if self._most < self._settings.batch_requests else 0,
            ratio=self._budget.ratio,
        )
        self._budget.set_aside(-batch.tokens, -batch.cost)
        return write_done(self._lake, self._namespace, done)


@dataclass
class _File:
    """A batch that is being filled: its lines lie in a file without a name, which a kill takes away."""

    lines: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    asked: list[AskedQuestion] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    size: int = 0
    tokens: int = 0
    cost: int = 0

    def add(self, line: bytes, asked: AskedQuestion, tokens: int, cost: int) -> None:
        """Add a question and what it may use."""
        self.lines.write(line)
        self.asked.append(asked)
        self.keys.add(asked.key)
        self.size += len(line)
        self.tokens += tokens
        self.cost += cost


def _results(batch: OpenBatch) -> Results:
    mode = batch.mode if batch.mode in MODES else "text"
    return Results({question.key: question for question in batch.questions}, mode)


def _line(question: Question, mode: Mode, dropped: Sequence[str]) -> bytes:
    body = question.request("text" if question.plain else mode, dropped)
    request = {"custom_id": question.key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"


def keys_out(lake: Lake, namespace: str, base_url: str) -> set[str]:
    """Keys of the questions that are out at an endpoint, by what the lake says."""
    found: list[Out] = batches_out(lake, namespace)
    return {question.key for out in found if out.batch.base_url == base_url for question in out.batch.questions}
