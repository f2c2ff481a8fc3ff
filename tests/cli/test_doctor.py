"""`hindlake doctor` on set-ups that are broken, each in one way, and on one that is well."""

from __future__ import annotations

import http.server
import json
import re
import socket
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hindlake.cli.doctor import CHECKS, DEEP
from hindlake.cli.examining import place, stored
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.leases import Holder
from hindlake.memory_store.history.log import log_path
from hindlake.memory_store.records.runs import Run, write_run
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from shell import Shell

NOW = datetime.now(UTC)
PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
Doctor = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def doctor(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Run it, and give its findings by code."""
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")

    def look(*options: str) -> dict[str, dict[str, Any]]:
        done = shell("doctor", "--json", *options)
        found = {finding["code"]: finding for finding in done.json["findings"]}
        assert done.code == int(any(finding["level"] == "broken" for finding in found.values())), done.err
        return found

    return look


def remember(settings: Settings, *texts: str, days_ago: float = 0, **columns: Any) -> list[str]:
    with Memory(settings, clock=ManualClock(NOW - timedelta(days=days_ago))) as memory:
        return [memory.remember(text, **columns) for text in texts]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return Settings.load(home=settings.home, embedder="wordllama")


def test_a_home_that_is_well_has_nothing_wrong(
    doctor: Doctor, shell: Shell, settings: Settings, tmp_path: Path
) -> None:
    remember(settings, "the lift is out of order")
    shell("run", "nightly")
    shell("backup", "create", "--to", str(tmp_path / "backups"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HINDLAKE_BACKUP_TO", str(tmp_path / "backups"))
        assert doctor("--deep").keys() - {"home-not-kept", "disk-full"} == set()
        assert "all is well" in shell("doctor").out or "home-not-kept" in shell("doctor").out


def test_a_model_that_was_swapped_is_told_with_the_command_that_mends_it(
    doctor: Doctor, shell: Shell, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(settings, "the lift is out of order")
    shell("rebuild")
    assert "model-swapped" not in doctor()
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "openai:text-embedding-3-small")
    assert doctor().keys() >= {"embedder-unusable", "endpoint-missing"}
    monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", f"http://127.0.0.1:{free_port()}/v1")
    assert "hindlake reindex --embedder openai:text" in doctor()["model-swapped"]["fix"]


def test_a_store_that_was_never_built_or_was_deleted_is_told(doctor: Doctor, settings: Settings) -> None:
    remember(settings, "the lift is out of order")
    with Memory(settings) as memory:
        memory._settle()
    lake = Lake.open(settings)
    lake.delete(lake.names("current"))
    assert "hindlake rebuild" in doctor()["no-store"]["fix"]


class _Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers as it is told to."""

    code, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.code)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[tuple[str, type[_Endpoint]]]:
    class Handler(_Endpoint):
        pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", Handler
        server.shutdown()
        thread.join()


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_rows_that_wait_for_an_index_are_told(
    doctor: Doctor, settings: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(settings, "the lift is out of order")
    shell("rebuild")
    remember(settings, "the roof is new", "the lamp flickers")
    with Memory(settings) as memory:
        memory._settle()
    monkeypatch.setattr(stored, "_UNINDEXED", 1)
    assert "3 rows of memories" in doctor()["index-behind"]["says"]


def test_endpoints_that_are_silent_unknown_or_refuse_are_told_apart(
    doctor: Doctor, endpoint: tuple[str, type[_Endpoint]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = endpoint
    monkeypatch.setenv("HINDLAKE_MODEL_CALLS", "on")
    monkeypatch.setenv("HINDLAKE_MODEL_NAME", "small")
    told = {}
    for code, body in ((200, b'{"data": [{"id": "small"}]}'), (200, b'{"data": [{"id": "large"}]}'), (401, b""),
                       (503, b""), (404, b""), (200, b"<html>")):  # fmt: skip
        handler.code, handler.body = code, body
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", url)
        told[code, body] = doctor().keys() & {"model-unknown", "key-refused", "endpoint-failing"}
    assert list(told.values()) == [set(), {"model-unknown"}, {"key-refused"}, {"endpoint-failing"}, set(), set()]
    monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", f"http://127.0.0.1:{free_port()}/v1")
    assert doctor().keys() & {"endpoint-silent", "endpoint-localhost"}
    monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", "http://nowhere.invalid/v1")
    assert "endpoint-unknown-host" in doctor()
    monkeypatch.setenv("HINDLAKE_MODEL_CALLS", "off")
    assert "calls-off" in doctor()


def test_a_key_is_never_shown(doctor: Doctor, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDLAKE_MODEL_API_KEY", "sk-very-secret-key")
    monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", f"http://127.0.0.1:{free_port()}/v1")
    done = shell("doctor", "--json")
    assert "very-secret" not in done.out + done.err


def test_a_lake_of_a_newer_version_is_one_finding_and_nothing_is_written(doctor: Doctor, settings: Settings) -> None:
    home = Path(settings.home)
    (home / "lake").mkdir(parents=True)
    (home / "lake" / "format.json").write_text(json.dumps({"format": 99, "version": "9.0"}))
    found = doctor()
    assert "written by hindlake 9.0" in found["cannot-look"]["says"]
    assert [path.name for path in (home / "lake").iterdir() if path.name[0] != "."] == ["format.json"]


def test_a_spool_that_can_not_be_written_or_waits_for_long_is_told(
    doctor: Doctor, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HINDLAKE_SPOOL", str(tmp_path / "file"))
    assert "HINDLAKE_SPOOL" in doctor()["spool-not-writable"]["fix"]
    monkeypatch.delenv("HINDLAKE_SPOOL")
    killed = (
        "import os, sys; from datetime import UTC, datetime, timedelta; from hindlake import Recorder;"
        "from hindlake.memory_store.clock import ManualClock;"
        "clock = ManualClock(datetime.now(UTC) - timedelta(hours=5));"
        "Recorder(home=sys.argv[1], clock=clock).task('refund').__enter__().user('please'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", killed, settings.home]).returncode == 9
    assert "hindlake run collect" in doctor()["spool-old"]["fix"]


def test_a_disk_that_is_nearly_full_is_told(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    for free, level in ((100 << 20, "broken"), (1 << 30, "doubtful")):
        monkeypatch.setattr(place.shutil, "disk_usage", lambda path, free=free: usage(1 << 40, 0, free))
        assert doctor()["disk-full"]["level"] == level


def test_a_home_in_a_container_without_a_volume_is_told(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:21 / / rw - overlay overlay rw\n30 22 0:40 / /data rw - ext4 /dev/sdb1 rw\n"
        "31 22 0:41 / /my\\040disk rw - tmpfs tmpfs rw\n"
    )
    kinds = [place.passing_file_system(Path(path), mounts) for path in ("/root/.hindlake", "/data/h", "/my disk/h")]
    assert kinds == ["overlay", "", "tmpfs"]
    assert place.passing_file_system(Path("/data"), tmp_path / "none") == ""


def test_clocks_that_disagree_are_told(doctor: Doctor, settings: Settings) -> None:
    remember(settings, "the lift is out of order", days_ago=-1)
    with Memory(settings) as memory:
        memory._settle()
    assert "ahead of" in doctor()["clock-skew"]["says"]


def test_runs_that_failed_stopped_or_were_killed_and_leases_that_were_not_given_back_are_told(
    doctor: Doctor, settings: Settings
) -> None:
    lake = Lake.open(settings)
    for job, status in (("reflect", "failed"), ("patterns", "stopped"), ("dedup", "running"), ("merge", "done")):
        run = Run(
            run_id=f"r-{job}", job=job, namespace="default", version="t", started_at=NOW - timedelta(days=3),
            status=status, error="the disk was full" if status == "failed" else "",  # type: ignore[arg-type]
        )  # fmt: skip
        write_run(lake, run)
    import msgspec

    old = Holder(id="x", machine="elsewhere", pid=1, since=NOW - timedelta(days=2), is_done=False)
    lake.put("lease/reflect/default/000000000001.json", msgspec.json.encode(old))
    found = doctor()
    assert "the disk was full" in found["run-failed"]["says"]
    assert found.keys() >= {"budget-stopped", "run-unfinished", "lease-stale", "nightly-late", "no-backup"}


def test_traces_that_no_one_looks_at_and_backups_that_are_old_are_told(
    doctor: Doctor, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Recorder(settings, clock=ManualClock(NOW - timedelta(days=3))) as recorder, recorder.task("refund") as task:
        task.outcome("failure")
    monkeypatch.setenv("HINDLAKE_BACKUP_TO", str(tmp_path / "backups"))
    found = doctor()
    assert "1 traces" in found["reflect-late"]["says"]
    assert "there is no backup yet" in found["backup-late"]["says"]


def test_a_gap_in_the_log_and_a_damaged_file_are_told(doctor: Doctor, settings: Settings) -> None:
    for text in ("the lift is out of order", "the roof is new", "the lamp flickers"):
        remember(settings, text)
        with Memory(settings) as memory:
            memory._settle()
    lake = Lake.open(settings)
    lake.delete([log_path("default", 2)])
    assert "lacks ns=default/log/000000000002" in doctor()["cannot-look"]["says"]
    path = Path(settings.home) / "lake" / log_path("default", 3)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    assert "000000000003" in doctor("--deep")["file-damaged"]["says"]


def test_what_keeps_memories_from_being_found_is_told(
    doctor: Doctor, settings: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(settings, "ann likes tea", subject="ann")
    with Memory(settings) as memory:
        memory._settle()
        memory.search("tea", task_type="refundz", subject="ann", kinds=["fact"])
        memory.remember("wait and retry", "experience", task_type="refunds")
    shell("run", "collect")
    monkeypatch.setenv("HINDLAKE_SEARCH_LONE_FLOOR", "0.99")
    found = doctor()
    assert found.keys() >= {"subject-needed", "floor-high"}
    assert "task_type 'refundz'" in found["filter-hides-all"]["says"]
    assert "default" in doctor("--namespace", "elsewhere")["namespace-empty"]["says"]


def test_a_gate_that_lets_everything_through_is_told(doctor: Doctor, settings: Settings, shell: Shell) -> None:
    with Recorder(settings) as recorder:
        for number in range(50):
            with recorder.task(f"task {number}") as task:
                task.outcome("failure")
    shell("run", "reflect", "--loop")
    assert "100% of the last month's 50 traces" in doctor()["over-reflection"]["says"]


def test_every_finding_has_a_section_of_the_page_and_no_section_is_without_one() -> None:
    folder = Path(place.__file__).parent
    sources = [path.read_text("utf-8") for path in (*folder.glob("*.py"), folder.parent / "doctor.py")]
    codes = {code for source in sources for code in re.findall(r'Finding\(\s*"([a-z-]+)"', source)}
    assert len(codes) > 25
    assert codes == set(re.findall(r"^### `([a-z-]+)`$", PAGE.read_text("utf-8"), re.MULTILINE))


def test_every_look_that_is_written_is_taken() -> None:
    folder = Path(place.__file__).parent
    written = set()
    for path in folder.glob("*.py"):
        written |= {(path.stem, name) for name in re.findall(r"^def (\w+)\(patient: Patient\) -> Iterator\[Finding\]",
                                                             path.read_text("utf-8"), re.MULTILINE)}  # fmt: skip
    taken = {(check.__module__.rsplit(".", 1)[1], check.__name__) for check in (*CHECKS, *DEEP)}
    assert written == taken


def test_a_variable_that_no_setting_reads_is_told_with_the_one_that_was_meant(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDLAKE_MODLE_NAME", "small")
    assert "HINDLAKE_MODEL_NAME" in doctor()["setting-unknown"]["fix"]
    monkeypatch.delenv("HINDLAKE_MODLE_NAME")
    monkeypatch.setenv("HINDLAKE_MODEL", '{"name": "small"}')
    assert "setting-unknown" not in doctor()


def test_a_settings_file_that_others_can_read_a_key_in_is_told(doctor: Doctor) -> None:
    file = Path("hindlake.toml")
    file.write_text('[model]\nname = "small"\n')
    file.chmod(0o644)
    assert "secrets-readable" not in doctor()
    file.write_text('[model]\napi_key = "sk-very-secret-key"\n')
    assert "chmod 600" in doctor()["secrets-readable"]["fix"]
    file.chmod(0o600)
    assert "secrets-readable" not in doctor()


def test_a_cluster_that_is_down_and_one_that_can_not_see_the_home_are_told(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDLAKE_RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    assert doctor().keys() & {"ray-unreachable", "ray-home-local"} == {"ray-unreachable"}
    monkeypatch.setenv("HINDLAKE_RAY_ADDRESS", "ray.invalid:6379")
    assert doctor().keys() >= {"ray-unreachable", "ray-home-local"}
