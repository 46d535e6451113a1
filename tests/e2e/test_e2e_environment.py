"""``ccltui doctor --environment``: what a machine offers, where everything may be missing."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from shell import CCLTUI
from terminal import session
from warm_shell import run

from ccltui.doctor.environment_checks import OPTIONAL, REQUIRED, is_required
from ccltui.slow_path import EVERY

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ("doctor", "--environment")
NO_HOME = {"HOME": "/dev/null", "XDG_CACHE_HOME": None, "CCLTUI_CACHE_DIR": None}


def findings(stdout: str) -> dict[str, dict[str, Any]]:
    return {row["check"]: row for row in json.loads(stdout)["environment"]}


def environment(**env: str | None) -> dict[str, dict[str, Any]]:
    done = run(CCLTUI, *ENVIRONMENT, "--format", "json", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return findings(done.stdout)


def test_a_machine_is_described_without_a_directory(tmp_path: Path) -> None:
    done = run(CCLTUI, *ENVIRONMENT, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    checks = [line.split("  ")[0] for line in done.stdout.splitlines()]
    for check in ("python", "numpy", "textual", "compiled modules", "terminal", "cache", "memory"):
        assert check in checks
    assert "descriptors" in checks
    assert list(tmp_path.iterdir()) == []


def test_the_packages_are_those_of_the_project() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    of_users = {"arrow", "dask", "mcp", "openmetrics", "serve"}
    named = {Requirement(text).name for extra in of_users for text in extras[extra]}

    assert set(REQUIRED) == {Requirement(text).name for text in project["dependencies"]}
    assert set(OPTIONAL) == named
    assert {extra for _, extra, _ in OPTIONAL.values()} == of_users


def test_a_bare_python_is_told_what_is_missing(job: Path) -> None:
    """Nothing but the standard library: what pip --no-deps, or a checkout alone, leaves."""
    bare = (sys.executable, "-S", "-P", "-m", "ccltui")
    env = {"PYTHONPATH": str(ROOT)}

    done = run(bare, *ENVIRONMENT, "--format", "json", env=env)
    other = run(bare, job, "--metric", "iter_time", env=env)

    assert (done.returncode, done.stderr) == (0, "")
    found = findings(done.stdout)
    assert {found[name]["state"] for name in REQUIRED if is_required(name)} == {"problem"}
    # With the version where the metadata of an installation lies beside the packages.
    assert re.search(r"-m pip install (--user )?--upgrade '?numpy", found["numpy"]["fix"])
    assert other.returncode == 1
    assert "is not installed; ccltui doctor --environment lists" in other.stderr
    assert other.stderr.count("\n") == 1


ABSENCES = (
    ("", "not built: there was no C compiler"),
    (EXTENSION_SUFFIXES[0], "cannot be loaded: ImportError"),
    (".cpython-30-s390x-linux-gnu.so", "built for another Python or machine: {}.cpython-30"),
)
"""How the file of a compiled module ends, "" for none, and what is said of the module then."""


def test_why_a_compiled_module_is_missing(tmp_path: Path) -> None:
    # With the byte code, which is valid for files of the same time.
    ignored = shutil.ignore_patterns("*.so", "*.c", "tui", "demo")
    shutil.copytree(ROOT / "ccltui", tmp_path / "ccltui", ignore=ignored)
    states = dict(zip(EVERY, itertools.cycle(ABSENCES), strict=False))
    for name, (suffix, _) in states.items():
        if suffix:
            (tmp_path / f"{name.replace('.', '/')}{suffix}").write_bytes(b"\x7fELF")
    (tmp_path / "empty").mkdir()

    done = run(
        (sys.executable, "-P", "-m", "ccltui"),
        *(*ENVIRONMENT, "--format", "json"),
        env={"PYTHONPATH": str(tmp_path), "CCLTUI_ACCEL": "1", "PATH": str(tmp_path / "empty")},
    )

    found = findings(done.stdout)
    assert found["compiled modules"]["message"].startswith(
        f"0 of {len(EVERY)}: the slower path is used"
    )
    assert len(states) > len(ABSENCES)
    for name, (_, message) in states.items():
        told = found[name.removeprefix("ccltui.")]["message"]
        assert message.format(name.rpartition(".")[2]) in told
    fix = found["compiled modules"]["fix"]
    assert fix.startswith("install a C compiler")
    assert f"{shlex.quote(sys.executable)} -m pip install " in fix


def test_settings_limits_and_places_are_those_of_the_process(tmp_path: Path) -> None:
    doctor = shlex.join((*CCLTUI, "doctor", "--environment", "--format", "json"))
    command = f"ulimit -n 100; ulimit -v 800000; {doctor}"
    env = {"OPENBLAS_NUM_THREADS": "1", "CCLTUI_ACCEL": "0"}
    limited = findings(run(("/bin/sh", "-c", command), env=env).stdout)
    moved = environment(CCLTUI_CACHE_DIR=str(tmp_path / "a" / "b"))

    assert limited["descriptors"]["message"].startswith("100 open files")
    assert limited["descriptors"]["fix"] == "run: ulimit -n 100"
    assert "address space limited to 819 MB" in limited["memory"]["message"]
    assert limited["memory"]["state"] == "warning"
    compiled = limited["compiled modules"]
    assert (compiled["state"], compiled["fix"]) == ("warning", "unset CCLTUI_ACCEL")
    assert moved["cache"]["message"].startswith(str(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()
    assert environment(CCLTUI_NSYS="/no/nsys")["nsys"]["state"] == "warning"


def test_a_home_that_cannot_be_written_changes_no_number(job: Path) -> None:
    found = environment(**NO_HOME)["cache"]
    usual = run(CCLTUI, job, "--metric", "iter_time")
    without = run(CCLTUI, job, "--metric", "iter_time", env=NO_HOME)

    assert found["state"] == "warning"
    assert "/dev/null/.cache/ccltui cannot be written" in found["message"]
    assert "CCLTUI_STORE" in found["fix"]
    assert (without.returncode, without.stdout) == (0, usual.stdout)
    assert without.stderr == usual.stderr


def test_the_explorer_and_the_demo_open_without_a_home(tmp_path: Path) -> None:
    with session(*CCLTUI, "demo", env={**NO_HOME, "TMPDIR": str(tmp_path)}) as explorer:
        explorer.wait_for("8/8")
        explorer.press("q")
        assert explorer.finish() == 0


def test_a_terminal_is_described(tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    arguments = (*ENVIRONMENT, "--format", "json", "-o", target)
    with session(*CCLTUI, *arguments, env={"LC_ALL": "C.UTF-8", "PYTHONUTF8": None}) as terminal:
        assert terminal.finish() == 0

    found = findings(target.read_text())["terminal"]
    assert "TERM=xterm-256color" in found["message"]
    assert found["message"].endswith("encoding utf-8, 80 columns, 24 lines")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("doctor",), "no trace directory given"),
        (("doctor", "--environment", "."), "give it no directory"),
    ],
)
def test_wrong_arguments_are_2(arguments: tuple[str, ...], message: str) -> None:
    done = run(CCLTUI, *arguments)

    assert done.returncode == 2
    assert message in done.stderr
