"""A process that exits at once leaves no process that is started by halves, and prints nothing."""

from __future__ import annotations

import subprocess
import sys

LOADED_BY_HALVES = """
import sys, types
from ccltui.process import end_at_once

def unfinished():
    raise NameError("_children")

for name, function in (
    ("multiprocessing.process", "active_children"),
    ("ccltui.parsers.ingest.worker_pool", "stop_starts"),
    ("ccltui.parsers.scratch_folder", "remove_in_use"),
):
    sys.modules[name] = types.ModuleType(name)
    setattr(sys.modules[name], function, unfinished)
end_at_once(143)
"""
STARTS_A_PROCESS = """
import threading, time
from ccltui.process import end_at_once
from ccltui.parsers.ingest.worker_pool import starting

begun = threading.Event()

def start():
    with starting():
        begun.set()
        time.sleep(0.2)
        print("started", flush=True)
    with starting():
        print("started another", flush=True)

threading.Thread(target=start).start()
begun.wait()
end_at_once(3)
"""
IMPORTS_NUMPY = """
import os, signal, sys, types
from importlib.machinery import ModuleSpec
from ccltui import process

half = sys.modules["numpy"] = types.ModuleType("numpy")
half.__spec__ = ModuleSpec("numpy", None)
half.__spec__._initializing = True

def command(_):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        raise ImportError("what the import makes of another exception")

sys.exit(process.run(command, []))
"""


def ended(code: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def test_modules_that_are_loaded_by_halves_are_passed_over() -> None:
    assert ended(LOADED_BY_HALVES) == (143, "", "")


def test_a_start_in_another_thread_ends_first_and_none_follows() -> None:
    assert ended(STARTS_A_PROCESS) == (3, "started\n", "")


def test_a_signal_amid_the_import_of_numpy_is_not_an_exception() -> None:
    assert ended(IMPORTS_NUMPY) == (143, "", "ccltui: ended by SIGTERM\n")
