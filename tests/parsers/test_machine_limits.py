"""Limits of this machine, and folders for what is temporary."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ccltui.parsers import machine_limits
from ccltui.parsers.machine_limits import allowed_cpus, available_memory, workers_for
from ccltui.parsers.scratch_folder import remove_abandoned, scratch_folder

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 CPUs and no limits."""
    monkeypatch.setattr(machine_limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine_limits, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    return tmp_path


def memory(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    monkeypatch.setattr(machine_limits, "_machine_memory", lambda _: free_bytes)


@pytest.mark.parametrize(
    ("grant", "affinity", "quota", "expected"),
    [
        ("", 16, "", 16),
        ("4", 16, "", 4),
        ("x", 16, "", 16),
        ("0", 16, "", 1),
        ("", 3, "", 3),
        ("", 16, "250000 100000", 3),
        ("", 16, "max 100000", 16),
        ("2", 3, "50000 100000", 1),
    ],
)
def test_the_least_limit_counts(
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    grant: str,
    affinity: int,
    quota: str,
    expected: int,
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", grant)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(affinity)), raising=False)
    (machine / "cpu.max").write_text(quota)

    assert allowed_cpus() == expected


def test_memory_is_what_the_control_group_leaves(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory(monkeypatch, 8 * GIB)
    assert available_memory() == 8 * GIB

    (machine / "memory.max").write_text(str(3 * GIB))
    (machine / "memory.current").write_text(str(GIB))
    assert available_memory() == 2 * GIB

    (machine / "memory.max").write_text("max")
    assert available_memory() == 8 * GIB


def test_limits_of_the_groups_around_count_too(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory(monkeypatch, 8 * GIB)
    job = machine / "slurm" / "job_7"
    (job / "step_0").mkdir(parents=True)
    (machine / "membership").write_text("0::/slurm/job_7/step_0\n")
    (job / "memory.max").write_text(str(4 * GIB))
    (job / "memory.current").write_text(str(GIB))
    (job / "cpu.max").write_text("400000 100000")
    (job / "step_0" / "memory.max").write_text("max")

    assert available_memory() == 3 * GIB
    assert allowed_cpus() == 4


def test_version_one_of_control_groups(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory(monkeypatch, 8 * GIB)
    (machine / "membership").write_text("5:cpu,cpuacct:/\n4:memory:/job\n")
    group = machine / "memory" / "job"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(str(GIB))
    (group / "memory.usage_in_bytes").write_text(str(2 * GIB))

    assert available_memory() == 0


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("files", "free_gib", "jobs", "expected"),
    [
        ([(1000, "none")], 8, None, 1),
        ([(1000, "none")] * 64, 8, None, 8),
        ([(1000, "none")] * 64, 8, 12, 12),
        ([(1000, "none")] * 64, 1, None, 5),
        ([(2 * GIB, "none")] * 8, 8, None, 5),
        ([(2 * GIB, "gzip")] * 8, 8, None, 1),
        ([(2 * GIB, "export")] * 8, 8, None, 8),
        ([(2 * GIB, "export")] * 8, 4, None, 4),
        ([(100 << 20, "zstd")] * 8, 8, None, 5),
        ([(1000, "none")] * 4, 0, None, 1),
    ],
)
def test_memory_bounds_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch,
    files: list[tuple[int, str]],
    free_gib: int,
    jobs: int | None,
    expected: int,
) -> None:
    memory(monkeypatch, free_gib * GIB)

    assert workers_for(files, jobs) == expected


_TWO_BLOCKS = """
import resource
from ccltui.parsers.machine_limits import keep_all_freed

keep_all_freed()
faults = []
for _ in range(3):
    b"x" * (64 << 20)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[2] - faults[1] < 1000)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of the GNU C library")
def test_a_large_block_that_was_freed_is_taken_again() -> None:
    """In 64 MiB there are 16,384 pages, which would all be cleared again."""
    done = subprocess.run([sys.executable, "-c", _TWO_BLOCKS], capture_output=True, check=True)
    assert done.stdout == b"True\n"


HOLDER = """
import sys, time
from pathlib import Path
from ccltui.parsers.scratch_folder import scratch_folder
with scratch_folder("some-", Path(sys.argv[1])) as folder:
    (folder / "columns.bin").write_bytes(b"x" * 1000)
    print(folder, flush=True)
    time.sleep(60)
"""


def test_it_is_private_and_gone_in_the_end(tmp_path: Path) -> None:
    with scratch_folder("some-", tmp_path) as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "file").write_text("text")
    assert list(tmp_path.iterdir()) == []


def test_another_error_removes_it_too(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), scratch_folder("some-", tmp_path):
        raise SystemExit(143)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_goes_and_that_of_a_running_one_stays(
    tmp_path: Path,
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        remove_abandoned(tmp_path, "some-")
        assert (folder / "columns.bin").exists()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()
    assert folder.exists()

    with scratch_folder("some-", tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]


def test_folders_of_others_stay(tmp_path: Path) -> None:
    """Those of another host, whose locks may not be seen here, links, and other names."""
    with scratch_folder("some-", tmp_path) as own:
        name = own.name.rsplit("-", 1)[0]
    (tmp_path / "some-00000000-abc").mkdir()
    (tmp_path / "else").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / f"{name}-link").symlink_to(tmp_path / "target")

    remove_abandoned(tmp_path, "some-")

    assert {path.name for path in tmp_path.iterdir()} == {
        "some-00000000-abc",
        "else",
        "target",
        f"{name}-link",
    }
