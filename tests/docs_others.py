"""Commands of others that pages show, each with how it is run here, or what it is held to where it can't be.

A program that is no part of this machine's (a container engine, systemd, a cluster) gets what the page gives it from
files of this repository: that these exist, and say what the page says of them, is checked.
"""

from __future__ import annotations

import configparser
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from command_line import assert_taken
from composed import load

if TYPE_CHECKING:
    from docs_desk import Desk

ROOT = Path(__file__).parent.parent
UNITS = ROOT / "deploy" / "systemd"
#: Returns what the command prints, where the page hands that on to another one.
Check = Callable[["Desk", list[str], Mapping[str, str]], str | None]
#: What `docker compose` takes that pages use, and how many values each takes.
_COMPOSE = {
    "up": {"--build": 0, "--detach": 0, "--force-recreate": 0, "--scale": 1}, "ps": {}, "logs": {}, "exec": {},
    "down": {"--volumes": 0},
}  # fmt: skip
#: Of each measurement what is made smaller here, so that it takes seconds.
_SMALLER = {
    "bench/recall.py": {
        "--rows": ["500"],
        "--dim": ["16"],
        "--readers": ["1"],
        None: ["--queries", "3", "--seconds", "1"],
    },
    "bench/maintain.py": {"--rows": ["100"]},
    "bench/year.py": {"--months": ["1"], None: ["--tasks", "1"]},
    "bench/mcp_start.py": {"--starts": ["1"]},
    "bench/scaling.py": {},
}


def _docker(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """The file is read as compose reads it; command, options and services are known."""
    assert words[1:3] == ["compose", "-f"]
    assert ROOT / words[3] == ROOT / "deploy" / "compose.yaml"
    services, (command, *rest) = load()["services"], words[4:]
    taken = _COMPOSE[command]
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            for scaled in [rest.pop(0) for _ in range(taken[word])]:
                assert scaled.split("=")[0] in services
        else:
            assert word in services
            break
    if "--build" in words:
        file = next(one["build"] for one in services.values() if "build" in one)
        assert (ROOT / "deploy" / file["context"] / file["dockerfile"]).is_file()


def _sudo(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """Files that are installed exist, and the commands in them are taken by the command line."""
    if words[1] != "cp":
        OTHERS[words[1]](desk, words[1:], variables)
        return
    folder, _, pattern = words[2].rpartition("/")
    found = sorted((ROOT / folder).glob(pattern))
    assert found, words[2]
    for path in found:
        if "cron.d" in words[3]:
            lines = re.findall(r"^[\d*/]+(?: [\d*/]+){4} +(\w+) +hindlake (.+)$", path.read_text(), re.MULTILINE)
            assert len(lines) == 8
            for _, command in lines:
                assert_taken(command.split())
        elif path.suffix == ".timer":
            _unit(desk, path.name)


def _systemctl(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """The units that are named are there; `enable` gives each timer a service whose command is taken."""
    for word in words[1:]:
        if word.startswith("hindlake"):
            for name in _braces(word):
                assert any(UNITS.glob(name)), name
                if "enable" in words:
                    _unit(desk, name)


def _journalctl(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """A service that a timer starts is asked for."""
    assert words[1] == "-u"
    _unit(desk, f"{words[2]}.timer")


def _braces(word: str) -> list[str]:
    """What a shell makes of {a,b} in a word."""
    parts = [part.split(",") if place % 2 else [part] for place, part in enumerate(re.split(r"[{}]", word))]
    return ["".join(one) for one in itertools.product(*parts)]


def _unit(desk: Desk, timer: str) -> None:
    """A timer is one, and what it starts is taken by the command line."""
    read = {name: configparser.ConfigParser(interpolation=None) for name in ("timer", "service")}
    for one in read.values():
        one.optionxform = str  # type: ignore[assignment,method-assign]
    name, _, instance = timer.removesuffix(".timer").partition("@")
    service = f"{name}@.service" if instance else f"{name}.service"
    assert read["timer"].read(UNITS / timer) and read["service"].read(UNITS / service)
    assert read["timer"]["Timer"]["OnCalendar"].endswith("UTC")
    program, *command = read["service"]["Service"]["ExecStart"].replace("%i", instance).split()
    assert Path(program).name == "hindlake"
    assert_taken(command)
    if analyze := shutil.which("systemd-analyze"):
        when = read["timer"]["Timer"]["OnCalendar"]
        subprocess.run([analyze, "calendar", when], check=True, capture_output=True)


def _prefect(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """Run against a server of the desk's own, which the page starts first."""
    here = _prefect_variables(desk)
    if words[1:3] == ["server", "start"]:
        desk.serve(words, here, f"http://127.0.0.1:{desk.ports[0]}/api/health")
    else:
        said = desk.run(words, {**here, **variables})
        assert "Created flow run" in said
        assert "--watch" not in words or "finished successfully" in said or "Completed" in said, said


def _prefect_variables(desk: Desk) -> dict[str, str]:
    return {
        "PREFECT_HOME": str(desk.folder / "prefect"),
        "PREFECT_SERVER_API_PORT": str(desk.ports[0]),
        "PREFECT_API_URL": f"http://127.0.0.1:{desk.ports[0]}/api",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }


def _make_secrets(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    assert "token for MCP" in desk.run([*words, str(desk.folder / "secrets")], variables)


def _serve_flows(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """Run by tests/flows/test_prefect_server.py; what it starts besides the server is run by this page's next block."""
    assert f'DEPLOY / "bin" / "{Path(words[0]).name}"' in (ROOT / "tests/flows/test_prefect_server.py").read_text()
    assert {"deploy-flows", "flow-worker"} <= set((ROOT / words[0]).read_text().split())


def _deploy_flows(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    desk.run(words, {**_prefect_variables(desk), **variables})


def _flow_worker(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    health = desk.ports[1]
    more = {"PREFECT_WORKER_WEBSERVER_PORT": str(health), **variables}
    desk.serve(words, {**_prefect_variables(desk), **more}, f"http://127.0.0.1:{health}/health")


def _python(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """Measurements are run with less to measure; tests are named that are there; chaos is asked for no round."""
    if words[1:3] == ["-m", "pytest"]:
        assert (ROOT / words[-1]).is_file()
        assert "pytest.mark.slow" in (ROOT / words[-1]).read_text()
    elif words[1:3] == ["-m", "chaos"]:
        desk.run(_smaller(words, {"--rounds": ["0"]}), {**variables, "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests"})
    else:
        desk.run(_smaller(words, _SMALLER[words[1]]), {**variables, "PYTHONPATH": f"{ROOT}/src"})


def _smaller(words: Sequence[str], values: Mapping[str | None, list[str]]) -> list[str]:
    """The words with other values of some options, and those that stand under None at the end."""
    said: list[str] = []
    option = ""
    for word in words:
        is_value = not word.startswith("-")
        if not is_value:
            option = word
            said += [word, *values.get(word, [])]
        elif option not in values:
            said.append(word)
    return [*said, *values.get(None, [])]


def _kubectl(desk: Desk, words: list[str], variables: Mapping[str, str]) -> str:
    """Stands for an agent whose log is its traces."""
    assert words[1] == "logs"
    return (ROOT / "examples" / "support.jsonl").read_text(encoding="utf-8")


def _git(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """This repository is cloned, as it was committed last."""
    assert words[1:] == ["clone", "REPOSITORY"]
    desk.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(desk.folder / "hindlake")], variables)


def _cd(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    assert (desk.folder / words[1]).is_dir()


def _make(desk: Desk, words: list[str], variables: Mapping[str, str]) -> None:
    """CI begins with these targets."""
    commanded = (ROOT / ".ci" / "run").read_text().splitlines()
    assert any(line.startswith(f"{' '.join(words)} ") for line in commanded), words


OTHERS: dict[str, Check] = {
    "cd": _cd,
    "deploy/bin/deploy-flows": _deploy_flows,
    "deploy/bin/flow-worker": _flow_worker,
    "deploy/bin/serve-flows": _serve_flows,
    "deploy/make-secrets": _make_secrets,
    "docker": _docker,
    "git": _git,
    "journalctl": _journalctl,
    "kubectl": _kubectl,
    "make": _make,
    "prefect": _prefect,
    "python": _python,
    "sudo": _sudo,
    "systemctl": _systemctl,
}
