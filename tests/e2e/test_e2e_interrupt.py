"""Progress on a terminal, and ctrl+c: loaded ranks are used and marked as a part."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shell import TIMEOUT_S, environment

# Loads the first file, then waits as a long file would.
SLOW = """
import sys, time
from ccltui.__main__ import main
from ccltui.parsers.ingest import load as ingest
real = ingest.load

def slow(capture, **options):
    events = real(capture, **options)
    while not isinstance(event := next(events), ingest.Loaded):
        yield event
    yield event
    second = capture.files[1]
    while not options["cancelled"]():
        time.sleep(0.05)
        yield ingest.Progress(second.path, 1, second.size_bytes)

ingest.load = slow
sys.exit(main())
"""


class Terminal:
    """A command whose standard error is a terminal, standard output a file."""

    def __init__(self, target: Path, *arguments: str | Path) -> None:
        self.target = target
        self._master, slave = pty.openpty()
        with target.open("wb") as stdout:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SLOW, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=slave,
                env=environment({}),
                start_new_session=True,
            )
        os.close(slave)
        self.seen = ""

    def read_until(self, text: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self._master], [], [], 1)[0]:
                self.seen += self._read()

    def finish(self) -> int:
        """Read until no process has the terminal any more; return the exit status."""
        end = time.monotonic() + TIMEOUT_S
        chunk = "…"
        while chunk:
            assert time.monotonic() < end, self.seen
            if select.select([self._master], [], [], 1)[0]:
                chunk = self._read()
                self.seen += chunk
        os.close(self._master)
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> str:
        try:
            return os.read(self._master, 4096).decode()
        except OSError:  # the other end is closed
            return ""


def test_ctrl_c_keeps_what_is_loaded(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    terminal = Terminal(target, job, "--metric", "coll_call_num", "--format", "json")
    terminal.read_until("loading 1/4 ranks")

    terminal.process.send_signal(signal.SIGINT)

    assert terminal.finish() == 130
    document = json.loads(target.read_text())
    assert document["trace"]["complete"] is False
    assert document["trace"]["ranks"] == 1
    (result,) = document["results"]
    assert result["status"] == "partial"
    (rank,) = result["details"]["inputs"]["ranks"]
    why = f"stopped after 1 of 4 files; loaded ranks: {rank}"
    assert result["reasons"][-1] == {"code": "missing_ranks", "message": why}
    assert "ctrl+c stops here" in terminal.seen
    assert "Traceback" not in terminal.seen
    assert f"ccltui: {why}" in terminal.seen


@pytest.mark.parametrize("verb", [(), ("doctor",)], ids=["metrics", "doctor"])
def test_a_stopped_run_never_looks_like_success(
    job: Path, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    options = () if verb else ("--metric", "iter_time")
    terminal = Terminal(tmp_path / "out", *verb, job, *options)
    terminal.read_until("loading 1/4 ranks")

    terminal.process.send_signal(signal.SIGINT)

    assert terminal.finish() == 130
    assert (tmp_path / "out").read_text() != ""


@pytest.mark.parametrize("entry", ["main", "main_metrics"])
def test_ctrl_c_during_the_imports_is_one_line(entry: str, tmp_path: Path) -> None:
    """The first import of the program raises what ctrl+c raises at that moment."""
    code = (
        "import builtins, sys\n"
        f"from ccltui.__main__ import {entry}\n"
        "real = builtins.__import__\n"
        "def interrupted(name, *rest, **options):\n"
        "    if name.startswith('ccltui'):\n"
        "        raise KeyboardInterrupt\n"
        "    return real(name, *rest, **options)\n"
        "builtins.__import__ = interrupted\n"
        f"sys.exit({entry}())\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].endswith("interrupted")
    assert "Traceback" not in done.stderr
