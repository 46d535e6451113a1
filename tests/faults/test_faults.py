"""Faults of disks, file servers and machines: the same answer, or one line and the right status."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trials import CCLTUI, NUMBERS, Plan, answer, environment, leftovers, run_trial, shown

from ccltui.demo import Spec, write_job

SHIM = Path(__file__).with_name("shim.c")
RANKS = 4
SMALL = Spec(
    tp=1, pp=1, dp_shard=RANKS, gpus_per_node=2, steps=3, layers=1, stragglers=(), compress=False
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("jobs") / "job"
    write_job(directory, SMALL)
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def expected(job: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("home")
    (folder / "tmp").mkdir()
    done = answer(job, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: faults of reading cannot be injected")
    target = tmp_path_factory.mktemp("shim") / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(SHIM), "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the shim cannot be compiled: {built.stderr[-300:]}")
    return target


def limited(
    job: Path, home: Path, before: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """The command from a shell that ran ``before``."""
    return subprocess.run(
        ["sh", "-c", f'{before} exec "$@"', "sh", *CCLTUI, str(job), *NUMBERS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(home, "none") | more,
        check=False,
        timeout=120,
    )


def require_plain(done: subprocess.CompletedProcess[str]) -> None:
    """Every line on standard error is one of the program, and the output is whole."""
    lines = done.stderr.splitlines()
    assert all(line.startswith("ccltui: ") for line in lines), done.stderr
    assert "internal error" not in done.stderr
    if done.stdout:
        json.loads(done.stdout)


def trace_of(job: Path, rank: int) -> Path:
    (path,) = job.rglob(f"*trace_{rank}.json")
    return path


@pytest.mark.parametrize(
    ("number", "after"),
    [
        (errno.EIO, 0),
        (errno.EIO, 40_000),
        (errno.ESTALE, -1),
        (errno.ESTALE, 40_000),
        (errno.EACCES, -1),
        (errno.EMFILE, -1),
        (errno.ENOMEM, 40_000),
    ],
)
def test_a_file_that_cannot_be_read_costs_that_file_alone(
    job: Path, home: Path, shim: Path, number: int, after: int
) -> None:
    path = trace_of(job, 2)
    assert path.stat().st_size > 50_000

    done = limited(
        job,
        home,
        LD_PRELOAD=str(shim),
        FAULT_PATH=f"/{path.name}",
        FAULT_ERRNO=str(number),
        FAULT_AFTER=str(after),
    )

    require_plain(done)
    assert path.name in done.stderr
    assert os.strerror(number) in done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["trace"]["ranks"] == RANKS - 1
    assert {one["status"] for one in report["results"]} == {"partial"}
    assert leftovers(home) == []


@pytest.mark.parametrize("room", [0, 30_000])
def test_a_full_disk_of_the_cache_costs_the_cache_alone(
    job: Path, home: Path, expected: str, shim: Path, room: int
) -> None:
    shutil.rmtree(home / "cache", ignore_errors=True)

    done = limited(
        job,
        home,
        LD_PRELOAD=str(shim),
        FULL_FOLDER=f"{home / 'cache'}/",
        FULL_AFTER=str(room),
    )

    require_plain(done)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert leftovers(home) == []
    assert list((home / "cache").rglob("columns.bin")) == []


def test_full_disks_of_cache_and_temporary_files_change_nothing_in_a_small_job(
    job: Path, home: Path, expected: str, shim: Path
) -> None:
    """The command reads a small job itself, and needs no file."""
    shutil.rmtree(home / "cache", ignore_errors=True)

    done = limited(job, home, LD_PRELOAD=str(shim), FULL_FOLDER=f"{home}/")

    require_plain(done)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert leftovers(home) == []


@pytest.mark.parametrize("limit", ["-v 120000", "-v 200000", "-n 24", "-f 4"])
def test_a_machine_without_room_says_so_or_answers(
    job: Path, home: Path, expected: str, limit: str
) -> None:
    done = limited(job, home, f"ulimit {limit};")

    if done.returncode == 0:
        assert done.stdout == expected
    else:
        assert done.returncode in (1, 127), done.stderr
        assert done.stderr.strip()
    if limit != "-v 120000":  # there the interpreter itself, or its libraries, may not start
        require_plain(done)
    assert leftovers(home) == []


@pytest.mark.parametrize("change", ["cut", "gone", "replaced", "growing"])
def test_files_that_change_while_they_are_read(job: Path, home: Path, change: str) -> None:
    """The moment is drawn: whatever was read, the answer is whole and no one is misled."""
    copy = home / "job"
    shutil.copytree(job, copy)
    path = trace_of(copy, 1)
    process = subprocess.Popen(
        [*CCLTUI, str(copy), *NUMBERS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home, "none"),
    )
    time.sleep(random.Random(change).uniform(0.1, 0.5))
    if change == "cut":
        os.truncate(path, 1000)
    elif change == "gone":
        shutil.rmtree(copy)
    elif change == "replaced":
        path.write_text("[]")
    else:
        with path.open("a") as file:
            file.write(" " * 100_000)
    output, errors = process.communicate(timeout=120)

    assert "Traceback" not in errors
    assert process.returncode in (0, 1, 3)
    if output:
        report = json.loads(output)
        if report["trace"]["ranks"] < RANKS:
            assert all(one["status"] != "ok" for one in report["results"])
    else:
        assert errors.startswith("ccltui: ")


def test_ten_processes_on_one_directory_and_cache(job: Path, home: Path, expected: str) -> None:
    with ThreadPoolExecutor(10) as threads:
        runs = list(threads.map(lambda _: answer(job, home), range(10)))

    assert {(one.returncode, one.stdout, one.stderr) for one in runs} == {(0, expected, "")}
    assert leftovers(home) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_entries_of_another_user_are_left_aside(job: Path, home: Path, expected: str) -> None:
    answer(job, home)
    for path in (home / "cache").rglob("*"):
        os.chown(path, 12345, 12345)

    done = answer(job, home)

    assert done.stdout == expected
    assert done.returncode == 0


@pytest.mark.parametrize(
    "streams", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full"]
)
def test_closed_and_full_streams(job: Path, home: Path, expected: str, streams: str) -> None:
    done = limited(job, home, f"exec {streams};")

    readable = ">&-" not in streams.replace("2>&-", "") and "full" not in streams
    assert done.returncode == (0 if readable else 1)
    assert done.stdout == (expected if readable else "")
    require_plain(done)


@pytest.mark.parametrize("place", ["read-only", "absent", "a file", None])
def test_any_home_gives_the_answer(job: Path, home: Path, expected: str, place: str | None) -> None:
    target = home / "home"
    if place == "read-only":
        target.mkdir(mode=0o500)
    elif place == "a file":
        target.write_text("")
    env = environment(home, "none")
    del env["CCLTUI_CACHE_DIR"]
    env["HOME"] = str(target)
    if place is None:
        del env["HOME"]
        env["XDG_CACHE_HOME"] = str(home / "xdg")
    done = subprocess.run(
        [*CCLTUI, str(job), *NUMBERS], capture_output=True, text=True, env=env, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_a_clock_that_is_far_off(job: Path, home: Path, expected: str) -> None:
    """Files of the future and of 1970, and a cache that is older and newer than they are."""
    copy = home / "job"
    shutil.copytree(job, copy)
    numbers = [result["value"] for result in json.loads(expected)["results"]]
    for moment in (1, 4_000_000_000):
        for path in copy.rglob("*.json"):
            os.utime(path, (moment, moment))
        for path in (home / "cache").rglob("*"):
            os.utime(path, (4_000_000_000 - moment, 4_000_000_000 - moment))
        done = answer(copy, home)
        assert (done.returncode, done.stderr) == (0, "")
        assert [one["value"] for one in json.loads(done.stdout)["results"]] == numbers


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("kind", ["metrics", "explorer"])
def test_a_signal_leaves_nothing(
    job: Path, home: Path, expected: str, kind: str, number: signal.Signals
) -> None:
    """Some moments of the five hundred of ``make faults``."""
    plan = Plan(kind, cached=False, number=number, to_child=False, after_s=0.7)

    outcome = run_trial(plan, job, home, expected)

    assert not outcome.problems, shown([outcome])


# Sends itself a signal at one point of the start: amid an import, while Textual makes the
# application, when its threads run, and when the first pane is on the screen.
AT_A_POINT = """
import os, signal, sys
from ccltui.__main__ import main
point = {point!r}

class Found:
    def find_spec(self, name, path=None, target=None):
        if name == point:
            os.kill(os.getpid(), signal.{number})

sys.meta_path.insert(0, Found())
if ":" in point:
    import importlib
    module, _, name = point.partition(":")
    owner, _, method = name.partition(".")
    kind = getattr(importlib.import_module(module), owner)
    real = getattr(kind, method)
    def interrupted(*words, **options):
        result = real(*words, **options)
        os.kill(os.getpid(), signal.{number})
        return result
    setattr(kind, method, interrupted)
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "point",
    [
        "ccltui.commands.loading",
        "ccltui.tui.app",
        "textual.app:App._build_driver",
        "textual.drivers.linux_driver:LinuxDriver.start_application_mode",
        "ccltui.tui.input.control",
    ],
)
def test_a_signal_at_any_point_of_the_start_ends_the_explorer(
    job: Path, home: Path, expected: str, point: str, number: signal.Signals
) -> None:
    code = AT_A_POINT.format(point=point, number=number.name)
    plan = Plan("explorer", cached=False, number=number, to_child=False, after_s=30.0)

    outcome = run_trial(plan, job, home, expected, command=(sys.executable, "-P", "-c", code))

    assert outcome.status == 128 + number, shown([outcome])
    assert not outcome.problems, shown([outcome])


def test_a_second_thread_of_a_caller_can_run_commands(job: Path) -> None:
    """Signals can be handled in the main thread alone: elsewhere they stay as they are."""
    from ccltui.process import run

    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(run(lambda _: 3, [])))
    thread.start()
    thread.join()

    assert statuses == [3]
