"""Engines beyond this machine: what they refuse, and dask with workers that die."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccltui.demo import Spec, write_job
from ccltui.index.slurm_jobs import site_options
from ccltui.index.work_division import EngineError
from ccltui.parsers.job import open_job

COMMAND = (sys.executable, "-m", "ccltui", "index")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("engines") / "job"
    write_job(directory, Spec(tp=2, pp=1, dp_shard=2, gpus_per_node=2, steps=2, stragglers=()))
    return directory


def run(*arguments: str | Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    changes = {} if path is None else {"PATH": str(path)}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **changes},
        timeout=120,
    )


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_slurm_that_is_not_installed_is_one_line(job: Path, tmp_path: Path) -> None:
    done = run(job, "--engine", "slurm", "--store", tmp_path / "store", path=tmp_path)

    assert done.returncode == 1
    assert "sbatch is not installed here" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_sbatch_refuses_is_one_line(job: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program(programs, "squeue", "exit 0")
    program(programs, "sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1")

    done = run(job, "--engine", "slurm", "--store", tmp_path / "store", path=programs)

    assert done.returncode == 1
    assert "ccltui: sbatch refused the job: sbatch: error: Invalid account" in done.stderr


def test_a_profile_gives_the_options_of_work_without_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SITE_ACCOUNT", raising=False)
    profile = tmp_path / "site.sh"
    profile.write_text(
        'SITE_ACCOUNT=m1\nSITE_PARTITION=gpu\nSITE_ANALYSIS_PARTITION="cpu nodes"\n'
        "SITE_ANALYSIS_QOS=\nSITE_ANALYSIS_CONSTRAINT=cpu\n"
    )

    assert site_options(str(profile)) == (
        "--account=m1",
        "--partition=cpu nodes",
        "--constraint=cpu",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SITE_ACCOUNT_NEEDED=yes\nSITE_ACCOUNT_FROM='ask for one'", "no account: ask for one"),
        ("echo broken >&2; exit 7", "broken"),
    ],
)
def test_a_profile_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "site.sh").write_text(text)

    with pytest.raises(EngineError, match=words):
        site_options(str(tmp_path / "site.sh"))


def test_an_unknown_profile_lists_those_there_are() -> None:
    with pytest.raises(EngineError, match=r"give its path, or one of: .*generic, perlmutter"):
        site_options("nowhere")


def test_no_scheduler_at_an_address_is_one_line(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    done = run(job, "--engine", "tcp://127.0.0.1", "--store", tmp_path / "store")

    assert done.returncode == 1
    assert "ccltui: no scheduler at tcp://127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dask_worker_that_is_killed_costs_its_task_alone(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    psutil = pytest.importorskip("psutil")  # comes with distributed
    store = tmp_path / "store"
    command = [*COMMAND, str(job), "--engine", "dask", "--jobs", "2", "--store", str(store)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while not list(store.glob("index/*/attempts/*")) and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            workers = [
                child
                for child in psutil.Process(process.pid).children(recursive=True)
                if "spawn_main" in " ".join(child.cmdline())
            ]
            workers[0].send_signal(signal.SIGKILL)
            _, told = process.communicate(timeout=120)
        finally:
            process.kill()  # this block waits for it
    open_job(job, cache_dir=tmp_path / "opened")

    assert process.returncode == 0, told
    for entry in (tmp_path / "opened").iterdir():
        for file in entry.iterdir():
            assert (store / entry.name / file.name).read_bytes() == file.read_bytes()
