"""Addresses that the settings name: whether someone answers there, takes the key, and has the model."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from .finding import Finding, Patient

#: Seconds that an endpoint has to answer.
_SECONDS = 5
_HERE = ("localhost", "127.0.0.1", "::1")
#: What container engines put into every container.
_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def model(patient: Patient) -> Iterator[Finding]:
    """The language model's endpoint; embedders of the kind openai:MODEL are asked there too."""
    settings = patient.settings.model
    wanted = [settings.name]
    if patient.settings.embedder.startswith("openai:"):
        wanted.append(patient.settings.embedder.removeprefix("openai:"))
    if not settings.base_url:
        if len(wanted) > 1 or patient.settings.reflector == "openai":
            yield Finding(
                "endpoint-missing", "broken", "a model is asked for, and HINDLAKE_MODEL_BASE_URL is empty",
                "set it to the address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8080/v1",
            )  # fmt: skip
        return
    if settings.calls == "off":
        yield Finding(
            "calls-off", "doubtful", "HINDLAKE_MODEL_CALLS is off, so the model that is set is never asked",
            "set HINDLAKE_MODEL_CALLS=on",
        )  # fmt: skip
    url = settings.base_url.rstrip("/") + "/models"
    yield from answers(url, "HINDLAKE_MODEL_BASE_URL", settings.api_key.get_secret_value(), wanted)


def store(patient: Patient) -> Iterator[Finding]:
    """The object store's endpoint."""
    if patient.settings.is_remote and patient.settings.s3.endpoint:
        yield from answers(patient.settings.s3.endpoint, "HINDLAKE_S3_ENDPOINT")


def reranker(patient: Patient) -> Iterator[Finding]:
    """The reranker's endpoint."""
    if patient.settings.rerank.url:
        yield from answers(patient.settings.rerank.url, "HINDLAKE_RERANK_URL")


def ray(patient: Patient) -> Iterator[Finding]:
    """The Ray cluster, and whether its workers can see the lake."""
    address = patient.settings.ray_address
    if not address or address in ("auto", "local"):
        return
    where = urlsplit(address if "://" in address else f"//{address}")
    host, port = where.hostname or "", where.port or 10001
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except OSError as error:
        yield Finding(
            "ray-unreachable", "broken", f"nobody answers at {address} (HINDLAKE_RAY_ADDRESS): {error}",
            "start the cluster (`ray start --head --port 6379`) or correct the address; empty: this machine's cores",
        )  # fmt: skip
    if host not in _HERE and not patient.settings.is_remote:
        yield Finding(
            "ray-home-local", "doubtful",
            f"jobs run on {address}, and the home {patient.settings.home} is a folder: its machines must see it too",
            "set HINDLAKE_HOME to s3://bucket/prefix, or mount one folder at this path on every machine",
        )  # fmt: skip


def answers(url: str, setting: str, key: str = "", models: list[str] | None = None) -> Iterator[Finding]:
    """What asking an address shows. With `models`, whether it has them."""
    host = urlsplit(url).hostname or ""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            body = reply.read(1 << 20)
    except urllib.error.HTTPError as error:
        with error:
            yield from _refused(error.code, url, setting, is_model=models is not None)
        return
    except (OSError, ValueError) as error:
        yield _unreachable(error, url, host, setting)
        return
    if models is not None:
        yield from _without(models, body, url)


def _refused(code: int, url: str, setting: str, is_model: bool) -> Iterator[Finding]:
    if not is_model:
        return  # it answers; what it is asked for here is nothing that it offers
    if code in (401, 403):
        yield Finding(
            "key-refused", "broken", f"{url} answers {code}: the key is missing, wrong or not allowed",
            "set HINDLAKE_MODEL_API_KEY",
        )  # fmt: skip
    elif code >= 500 or code == 429:
        yield Finding(
            "endpoint-failing", "doubtful", f"{url} answers {code}", "look at the server; calls are tried again"
        )
    elif code != 404:  # some servers list no models
        yield Finding(
            "endpoint-failing", "doubtful", f"{url} answers {code}", f"check {setting}: it ends in /v1 mostly"
        )


def _unreachable(error: Exception, url: str, host: str, setting: str) -> Finding:
    reason = getattr(error, "reason", error)
    if isinstance(reason, socket.gaierror):
        return Finding(
            "endpoint-unknown-host", "broken", f"no address is known for {host} ({setting})",
            "check the name; between containers use the service's name and one network, and retry: DNS may flake",
        )  # fmt: skip
    if isinstance(reason, ssl.SSLError):
        return Finding(
            "endpoint-certificate", "broken", f"{url} has a certificate that is not trusted: {reason}",
            "use http:// for a server of your own, or install its authority's certificate",
        )  # fmt: skip
    if host in _HERE and any(mark.exists() for mark in _MARKS):
        return Finding(
            "endpoint-localhost", "broken", f"nobody answers at {url}: inside a container {host} is the container",
            f"set {setting} to the service's name in the network, or to host.docker.internal",
        )  # fmt: skip
    return Finding(
        "endpoint-silent", "broken", f"nobody answers at {url}: {reason}",
        f"start the server, or check {setting}: host, port, and whether something else has taken the port",
    )  # fmt: skip


def _without(models: list[str], body: bytes, url: str) -> Iterator[Finding]:
    try:
        listed = [str(one["id"]) for one in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return  # not every server lists its models
    for name in models:
        if listed and name not in listed:
            some = ", ".join(sorted(listed)[:5])
            yield Finding(
                "model-unknown", "broken", f"{url} has no model {name}; it has {some}",
                "set HINDLAKE_MODEL_NAME (or the embedder) to one of them",
            )  # fmt: skip
