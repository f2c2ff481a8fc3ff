"""The compose file and the image by what they say: limits, users, secrets, health, dependencies. Nothing is run."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from composed import DEPLOY, image_environment, interpolate, load

SERVICES: dict[str, dict[str, Any]] = load()["services"]
#: Those that do their work and end.
ONE_SHOT = {"bucket", "flows"}


def test_everything_that_belongs_to_the_system_is_a_service() -> None:
    assert set(SERVICES) == {"store", "bucket", "prefect", "flows", "worker", "ray-head", "ray-worker", "mcp"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_limited_unprivileged_and_restarted(name: str) -> None:
    service = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]
    assert float(limits["cpus"]) <= 2 and re.fullmatch(r"\d+g", limits["memory"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    user, _, group = service["user"].partition(":")
    assert int(user) >= 1000 and int(group) >= 1000
    assert service["restart"] == ("on-failure:10" if name in ONE_SHOT else "unless-stopped")
    assert service["networks"] == ["hindlake"]
    assert service["logging"]["options"]["max-size"]
    assert not service.get("privileged") and "network_mode" not in service and "docker.sock" not in str(service)


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_a_service_that_goes_on_has_a_health_check(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] == "CMD"
    assert check["retries"] >= 5 and {"interval", "timeout", "start_period"} <= check.keys()


def test_a_service_waits_until_what_it_needs_is_healthy_and_then_tries_ten_times_every_five_seconds() -> None:
    for name, service in SERVICES.items():
        needed = set(service.get("depends_on", {}))
        conditions = {one: how["condition"] for one, how in service.get("depends_on", {}).items()}
        assert all(
            how == ("service_completed_successfully" if one in ONE_SHOT else "service_healthy")
            for one, how in conditions.items()
        )
        waits = {one.split(":")[0] for one in service.get("environment", {}).get("WAIT_FOR", "").split()}
        assert waits == needed - ONE_SHOT, name
    text = (DEPLOY / "bin" / "entrypoint").read_text()
    assert '"WAIT_SECONDS", "5"' in text and '"WAIT_TIMES", "10"' in text


def test_only_prefect_and_mcp_are_published_and_only_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"prefect": ["127.0.0.1:4200:4200"], "mcp": ["127.0.0.1:8848:8848"]}


def test_no_secret_is_written_down_and_each_comes_from_a_file_that_git_and_the_image_leave_out() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    assert not re.search(r"(?i)(password|secret_access_key|api_key|auth_string|token)\s*[:=]\s*['\"]?\w", text)
    found = load()
    assert all(set(secret) == {"file"} for secret in found["secrets"].values())
    used = {
        one if isinstance(one, str) else one["source"]
        for service in SERVICES.values()
        for one in service.get("secrets", ())
    }
    assert used == set(found["secrets"])
    assert "secrets/" in (DEPLOY / ".gitignore").read_text().split()
    assert (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()[1] == "*"


def test_what_is_written_lies_in_a_volume_or_in_memory() -> None:
    volumes = load()["volumes"]
    for name, service in SERVICES.items():
        kept = [volume.split(":") for volume in service.get("volumes", ())]
        assert all(source in volumes for source, _ in kept)
        places = {target for _, target in kept} | {one.split(":")[0] for one in service["tmpfs"]}
        assert "/tmp" in places
        assert places & {"/var/lib/hindlake", "/data"}, name


def test_the_image_runs_as_nobody_special_and_installs_by_hash() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    installs = [line for line in lines if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0] and "--no-index /wheel/" in installs[1]
    assert all("--no-deps" in line for line in installs)
    assert not any("http" in line for line in lines if line.startswith(("RUN", "FROM", "ADD")))
    copied = {part for line in lines if line.startswith("COPY") and "--from" not in line for part in line.split()[1:-1]}
    allowed = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert copied == allowed
    assert all((DEPLOY.parent / one).exists() for one in copied)
    assert image_environment()["HOME"] == "/var/lib/hindlake"


def test_variables_are_read_as_compose_reads_them() -> None:
    assert interpolate({"a": ['${X:-d} $$ ${Y:-["m"]}', 1]}, {"Y": "z"}) == {"a": ["d $ z", 1]}
    assert interpolate("${X:-}", {}) == ""


def test_secrets_are_made_once_and_the_token_opens_what_its_hash_says(tmp_path: Path) -> None:
    def make() -> str:
        command = [DEPLOY / "make-secrets", tmp_path / "s"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    token = re.search(r"shown this once: (\S+)", make())
    assert token is not None
    before = {file.name: file.read_bytes() for file in (tmp_path / "s").iterdir()}
    assert json.loads(before["mcp_tokens"])["first"]["sha256"] == sha256(token[1].encode()).hexdigest()
    credentials = json.loads(before["s3.json"])["identities"][0]["credentials"][0]
    assert credentials["accessKey"] == before["s3_access_key_id"].decode().strip()
    assert credentials["secretKey"] == before["s3_secret_access_key"].decode().strip()
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    assert "shown this once" not in make()
    assert {file.name: file.read_bytes() for file in (tmp_path / "s").iterdir()} == before


def _entrypoint(secrets: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEPLOY / "bin" / "entrypoint", *command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "SECRETS": str(secrets), **environment},
    )  # fmt: skip


def test_a_container_gets_its_secrets_as_variables_and_becomes_its_command(tmp_path: Path) -> None:
    for name, value in {"KEY_A": "one\n", "KEY_B": "", "KEY_C": "file", "s3.json": "{}"}.items():
        (tmp_path / name).write_text(value)
    done = _entrypoint(tmp_path, "sh", "-c", 'echo "$KEY_A|${KEY_B-unset}|$KEY_C"; exit 7', KEY_C="set")
    assert (done.returncode, done.stdout) == (7, "one|unset|set\n")


def test_a_container_gives_up_where_what_it_needs_takes_no_connection(tmp_path: Path) -> None:
    done = _entrypoint(tmp_path, "true", WAIT_FOR="127.0.0.1:1", WAIT_SECONDS="0.01", WAIT_TIMES="3")
    assert done.returncode == 1
    left = [line.split("; ")[-1] for line in done.stderr.splitlines()[:-1]]
    assert left == ["2 more tries", "1 more tries", "0 more tries"]
    assert "is that service up" in done.stderr


def test_every_job_of_the_crontab_and_of_the_timers_is_a_command() -> None:
    from typer.main import get_command

    from hindlake.cli.application import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    text = (DEPLOY / "cron" / "hindlake").read_text()
    jobs = {tuple(line.split()[7:9]) for line in text.splitlines() if re.match(r"[\d*]", line)}
    assert all(job in commands[group].commands for group, job in jobs)
    units = {file.stem for file in (DEPLOY / "systemd").glob("*.timer")}
    assert units == {f"hindlake@{job}" if group == "run" else f"hindlake-{group}" for group, job in jobs}
    services = {file.stem: file.read_text() for file in (DEPLOY / "systemd").glob("*.service")}
    assert "ExecStart=/usr/local/bin/hindlake run %i\n" in services["hindlake@"]
    assert "ExecStart=/usr/local/bin/hindlake backup create\n" in services["hindlake-backup"]
