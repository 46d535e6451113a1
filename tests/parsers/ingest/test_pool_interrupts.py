"""Ctrl+c reaches the whole process group; what it means the process that was typed at decides."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccltui.parsers.ingest.worker_pool import StopPipe, starting

WAKES = """
import signal, sys, time
from ccltui.parsers.ingest.worker_pool import WorkerPool
signal.signal(signal.SIGINT, lambda *_: None)
if __name__ == "__main__":
    with WorkerPool.awake(2):
        print("woken", flush=True)
        time.sleep(1)
"""


def blocked() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_processes_inherit_that_interrupts_wait() -> None:
    with starting():
        assert blocked()

    assert not blocked()


@pytest.mark.parametrize("wait_s", [0.0, 0.05, 0.1, 0.2])
def test_one_that_still_imports_says_nothing(wait_s: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAKES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "woken\n"

    time.sleep(wait_s)
    os.killpg(process.pid, signal.SIGINT)

    assert process.communicate(timeout=60)[1] == ""


BETWEEN_TASKS = """
import multiprocessing, os, signal
from ccltui.parsers.ingest import rank_worker

rank_worker.start_worker(None, multiprocessing.Pipe()[0])
try:
    os.kill(os.getpid(), {number})
finally:
    raise ValueError("what an import makes of another exception")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_without_a_task_exits_at_once_at_a_signal(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BETWEEN_TASKS.format(number=int(number))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (128 + number, "")


KILLED_WHILE_IT_LOOKS = """
import multiprocessing
from ccltui.parsers.ingest.worker_pool import StopPipe

def look(stop, begun):
    begun.send(True)
    while True:
        stop.poll()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    stop = StopPipe(context)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=look, args=(stop.looked_at, sender))
    process.start()
    receiver.recv()
    process.kill()
    process.join()
    stop.set()
    print(stop.looked_at.poll())
"""


def test_a_process_that_was_killed_while_it_looked_keeps_nobody_from_stopping(
    tmp_path: Path,
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED_WHILE_IT_LOOKS)

    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.stdout, done.stderr) == ("True\n", "")


def test_stop_is_seen_although_another_process_holds_both_ends() -> None:
    stop = StopPipe(multiprocessing.get_context("spawn"))
    copy = os.dup(stop._held.fileno())  # what a process that was forked meanwhile has
    try:
        assert not stop.looked_at.poll()
        stop.set()
        stop.set()
        assert stop.is_set
        assert [stop.looked_at.poll() for _ in range(2)] == [True, True]
    finally:
        os.close(copy)
        stop.looked_at.close()
