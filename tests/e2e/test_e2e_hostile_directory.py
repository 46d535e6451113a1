"""No file in a trace directory or in the working directory is ever executed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import warm_shell
from planted_modules import Planted, module_names, plant
from shell import CCL_METRICS, CCLTUI, MODULE, run
from terminal import session

from ccltui.demo import Spec, write_job

REPORT = (*CCLTUI, "metrics-report")
# Everything of a run that says where it ran or how long it took is the same in both directories.
COMMANDS = {
    "headless": (*CCLTUI, ".", "--metric", "straggler_lag", "--no-cache", "--jobs", "2"),
    "doctor": (*CCLTUI, "doctor", ".", "--format", "json"),
    "stats": (*CCLTUI, "stats", ".", "--no-cache", "--jobs", "2"),
    "metrics-report": (*REPORT, ".", ".", "--metric", "iter_time", "--no-cache", "--jobs", "2"),
    "list": (*CCLTUI, "--list-metrics"),
    "seed": (*CCL_METRICS, "--trace", ".", "--metric", "iter_time"),
}


# What no interpreter needs to start.
LATE = ("multiprocessing", "threading", "pickle", "json", "queue", "numpy", "msgspec", "textual")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job whose files are too large to be read without workers."""
    directory = tmp_path_factory.mktemp("job") / "run"
    write_job(directory, Spec(compress=False, steps=4))
    assert sum(file.stat().st_size for file in directory.iterdir()) > 8 << 20
    return directory


@pytest.fixture(scope="module")
def places(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Planted, Path]:
    """A directory of traces with planted files, and its harmless twin."""
    top = tmp_path_factory.mktemp("places")
    hostile, twin = top / "hostile" / "run", top / "twin" / "run"
    for place in (hostile, twin):
        shutil.copytree(traces, place)
    planted = plant(hostile, top / "marks")
    planted.tame_in(twin)
    return planted, twin


@pytest.fixture
def planted(places: tuple[Planted, Path]) -> Planted:
    for mark in places[0].marks.iterdir():
        mark.unlink()
    return places[0]


@pytest.fixture
def twin(places: tuple[Planted, Path]) -> Path:
    return places[1]


def test_the_planted_files_run_where_they_are_imported(planted: Planted) -> None:
    assert len(module_names()) > 200

    # -B: byte code would differ from the twin.
    run([sys.executable, "-B", "-c", "import textual"], cwd=planted.directory)

    assert planted.imported()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_it_prints_elsewhere(name: str, planted: Planted, twin: Path) -> None:
    done = run(COMMANDS[name], cwd=planted.directory)
    clean = warm_shell.run(COMMANDS[name][:1], *COMMANDS[name][1:], cwd=twin)

    assert planted.imported() == []
    assert (done.returncode, done.stderr) == (0, clean.stderr)
    assert done.stdout == clean.stdout


def test_python_dash_m_leaves_the_directory_too(planted: Planted, twin: Path) -> None:
    words = (".", "--metric", "iter_time", "--no-cache", "--jobs", "2")

    with planted.without("ccltui"):  # Python itself imports that before any code of ours
        done = run(MODULE, *words, cwd=planted.directory)
    clean = warm_shell.run(CCLTUI, *words, cwd=twin)

    assert planted.imported() == []
    assert (done.returncode, done.stderr) == (0, clean.stderr)
    assert done.stdout == clean.stdout


@pytest.mark.parametrize("entries", ["", ":", ".:", "{lib}:", ":{lib}", "run/..:{lib}"])
def test_an_entry_of_the_search_path_without_a_root_is_left_out(
    entries: str, planted: Planted, tmp_path: Path
) -> None:
    """Python imports a few of these before any code of ours; no child of ours does."""
    lib = tmp_path / "lib"
    lib.mkdir()
    code = (
        "import json, os, sys; del sys.path[0]\n"
        "from ccltui.__main__ import leave_working_directory\n"
        "leave_working_directory()\n"
        "print(json.dumps([os.environ.get('PYTHONPATH'), sys.path]))"
    )

    done = run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": entries.format(lib=lib)},
    )

    stated, path = json.loads(done.stdout)
    assert stated == (str(lib) if "lib" in entries else None if entries else "")
    assert str(tmp_path) not in path
    assert (str(lib) in path) == ("lib" in entries)


def test_an_empty_entry_of_the_search_path_reaches_no_child(
    traces: Path, twin: Path, tmp_path: Path
) -> None:
    """Of what Python imports before any code of ours, nothing is planted."""
    planted = plant(tmp_path, tmp_path / "marks", LATE)
    words = (traces, "--metric", "iter_time", "--no-cache", "--jobs", "2")

    done = run(CCLTUI, *words, cwd=tmp_path, env={"PYTHONPATH": ":"})

    assert planted.imported() == []
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(CCLTUI, *words, cwd=twin).stdout


def test_the_explorer_opens(planted: Planted) -> None:
    with session(*CCLTUI, ".", "--no-cache", cwd=planted.directory) as explorer:
        explorer.wait_for("8/8")
        explorer.wait_for("What costs time")
        explorer.press("q")

        assert explorer.finish() == 0
    assert planted.imported() == []


def test_the_demo_opens(planted: Planted, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    with session(*CCLTUI, "demo", tmp_path / "job", cwd=planted.directory, env=env) as explorer:
        explorer.wait_for("8/8")
        explorer.press("q")

        assert explorer.finish() == 0
    assert planted.imported() == []


def test_an_nsys_of_the_working_directory_is_not_started(tmp_path: Path) -> None:
    nsys = tmp_path / "nsys"
    nsys.write_text("#!/bin/sh\ntouch started\n")
    nsys.chmod(0o755)
    (tmp_path / "report.nsys-rep").write_bytes(b"\x00\x01\x02\x00")
    path = os.environ["PATH"]

    for entries in (f":{path}", f".:{path}", f"{path}:"):
        run(CCLTUI, ".", "--metric", "iter_time", cwd=tmp_path, env={"PATH": entries})

    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("flags", [["-E"], ["-I"], ["-P"], ["-s"]])
def test_flags_of_python_do_not_open_the_path(flags: Sequence[str], planted: Planted) -> None:
    command = [sys.executable, *flags, CCLTUI[0], ".", "--metric", "iter_time", "--no-cache"]

    done = run(command, "--jobs", "2", cwd=planted.directory)

    assert planted.imported() == []
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_that_loads_traces_starts_no_planted_file(
    planted: Planted, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from ccltui.parsers.ingest.load import load\n"
        "from ccltui.parsers.job import start_job\n"
        "events = load(start_job('.').capture, jobs=2)\n"
        "print(sum(type(event).__name__ == 'Loaded' for event in events))\n"
    )

    done = run(
        [sys.executable, str(script)],
        cwd=planted.directory,
        env={"CCLTUI_CACHE_DIR": str(tmp_path / "cache")},
    )

    assert planted.imported() == []
    assert (done.stdout, done.stderr) == ("8\n", "")
