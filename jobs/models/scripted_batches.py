"""A scripted model with a Batch API: files, batches, and every way in which they go wrong.

with ScriptedBatches([say({"summary": "…"})]) as model:
    …                                            # files go up, batches are made
    model.finish()                               # all that are waiting are answered
    model.finish(spoil=lambda lines: lines[::-1])
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .scripted_model import Request, ScriptedModel, completion

#: What is done to the lines of an output file before it is handed out.
Spoil = Callable[[list[str]], Iterable[str]]
_MULTIPART = re.compile(rb'name="(\w+)"(?:; filename="([^"]*)")?[^\r]*\r\n(?:[^\r]+\r\n)*\r\n(.*?)\r\n--', re.S)


@dataclass
class ScriptedBatch:
    """A batch as the server holds it."""

    id: str
    input_file: str
    metadata: dict[str, str]
    created_at: int
    status: str = "in_progress"
    output_file: str | None = None
    error_file: str | None = None
    errors: list[dict[str, str]] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "id": self.id, "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h",
            "created_at": self.created_at, "input_file_id": self.input_file, "status": self.status,
            "output_file_id": self.output_file, "error_file_id": self.error_file, "metadata": self.metadata,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
        }  # fmt: skip


class ScriptedBatches(ScriptedModel):
    """The server. Nothing of a batch is answered until `finish` is called; its turns are those of the script."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        #: Files by id; deleted ones are gone
        self.files: dict[str, bytes] = {}
        #: Batches in the order in which they were made
        self.batches: list[ScriptedBatch] = []
        #: What happens to requests by "METHOD path": a status, or 0 for a connection that breaks
        self.refuse: dict[str, int] = {}
        #: The same, after the request was carried out: its reply is lost
        self.lose: dict[str, int] = {}

    @property
    def asked(self) -> list[str]:
        """Every question of every batch, by its custom id."""
        return [
            json.loads(line)["custom_id"]
            for batch in self.batches
            for line in self.files.get(f"{batch.input_file}-copy", b"").decode().splitlines()
        ]

    def finish(
        self,
        *,
        status: str = "completed",
        only: int | None = None,
        spoil: Spoil | None = None,
        lose_output: bool = False,
        errors: Iterable[tuple[str, str]] = (),
    ) -> None:
        """End every batch that is waiting: all or `only` so many of its questions get their turn of the script.

        Expired and cancelled batches name those that got none in their error file; a failed one has `errors` alone.
        """
        for batch in self.batches:
            if batch.status not in ("in_progress", "validating"):
                continue
            batch.status = status
            batch.errors = [{"code": code, "message": message} for code, message in errors]
            if status == "failed":
                continue
            requests = [json.loads(line) for line in self.files[f"{batch.input_file}-copy"].decode().splitlines()]
            done = requests if only is None else requests[:only]
            output: list[str] = []
            error: list[str] = []
            for request in done:
                code, body = self._answered(request["body"])
                line = _line(request["custom_id"], code, body)
                (output if code == 200 else error).append(line)
            for request in requests[len(done) :] if status in ("expired", "cancelled") else ():
                said = {"code": f"batch_{status}", "message": f"the batch was {status} before this request was made"}
                error.append(json.dumps({"custom_id": request["custom_id"], "response": None, "error": said}))
            output = list(spoil(output)) if spoil else output
            batch.output_file = self._keep("\n".join(output).encode()) if output else None
            batch.error_file = self._keep("\n".join(error).encode()) if error else None
            if lose_output and batch.output_file:
                del self.files[batch.output_file]

    def serve(self, method: str, path: str, raw: bytes) -> tuple[int, str | dict[str, Any]] | None:
        """Files and batches."""
        parts = urlsplit(path).path.split("/")
        if parts[0] not in ("files", "batches"):
            return None
        name = f"{method} {parts[0]}"
        if name in self.refuse:
            code = self.refuse[name]
            return code, {"error": {"message": f"{name} is refused", "code": code}}
        served = self._served(method, parts, raw, parse_qs(urlsplit(path).query))
        if name in self.lose:
            return self.lose.pop(name), {"error": {"message": f"the reply to {name} is lost"}}
        return served

    def _served(
        self, method: str, parts: list[str], raw: bytes, query: dict[str, list[str]]
    ) -> tuple[int, str | dict[str, Any]]:
        missing = 404, {"error": {"message": f"no such {parts[0]}: {'/'.join(parts[1:])}", "type": "not_found"}}
        if parts == ["files"] and method == "POST":
            fields = {name.decode(): (filename, content) for name, filename, content in _MULTIPART.findall(raw)}
            filename, content = fields["file"]
            file_id = self._keep(content.strip(b"\r\n"))
            self.files[f"{file_id}-copy"] = self.files[file_id]
            return 200, {
                "id": file_id, "object": "file", "bytes": len(content), "created_at": 0, "status": "processed",
                "filename": filename.decode(), "purpose": fields["purpose"][1].decode(),
            }  # fmt: skip
        if parts[0] == "files" and len(parts) > 1 and parts[1] in self.files:
            if method == "DELETE":
                del self.files[parts[1]]
                return 200, {"id": parts[1], "object": "file", "deleted": True}
            return 200, self.files[parts[1]].decode()
        if parts == ["batches"] and method == "POST":
            said = json.loads(raw)
            batch = ScriptedBatch(
                f"batch-{len(self.batches)}", said["input_file_id"], said.get("metadata") or {}, int(time.time())
            )
            self.batches.append(batch)
            return 200, batch.shown()
        if parts == ["batches"]:
            newest = self.batches[::-1]
            after = query.get("after", [""])[0]
            start = next((place + 1 for place, batch in enumerate(newest) if batch.id == after), 0)
            page = newest[start : start + int(query.get("limit", ["20"])[0])]
            return 200, {"object": "list", "data": [batch.shown() for batch in page], "has_more": False}
        found = next((batch for batch in self.batches if parts[1:] == [batch.id]), None)
        return (200, found.shown()) if found else missing

    def _keep(self, content: bytes) -> str:
        file_id = f"file-{len(self.files)}-{time.monotonic_ns()}"
        self.files[file_id] = content
        return file_id

    def _answered(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        request = Request("chat/completions", body, time.monotonic())
        turn = self._turn(request)
        with self._lock:
            self.requests.remove(request)  # it came in a file, and is no call
        if turn.kind == "say":
            return 200, completion(turn, request)
        return turn.code, {"error": {"message": turn.content, "type": "error", "code": turn.code}}


def _line(custom_id: str, code: int, body: dict[str, Any]) -> str:
    response = {"status_code": code, "request_id": f"req-{custom_id[:8]}", "body": body}
    return json.dumps({"id": f"line-{custom_id[:8]}", "custom_id": custom_id, "response": response, "error": None})
