"""Run a training program with an execution trace beside every trace of the PyTorch profiler.

    python train_with_traces.py MODULE|SCRIPT.py ARGUMENTS...

torchtitan records no execution traces. So every ``torch.profiler.profile`` that a program opens
without an observer of its own gets one here, and each ``torch_et_RANK.json`` is put beside the
Kineto trace of the same window, whose ``Record function id`` its nodes refer to by ``rf_id``.
Under nsys, where no such profiler runs, the steps named by NSYS_STEPS are recorded instead.
With FR_ON_REQUEST each process answers requests for a dump of the flight recorder.
"""

from __future__ import annotations

import functools
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from dump_on_request import answer_requests
from recorded_steps import record_steps
from torch.profiler import ExecutionTraceObserver, profile


def rank() -> int:
    """Return this process's rank, from the process group or the launcher."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


class WindowObserver:
    """One execution trace a window of the profiler's schedule, where torch writes one a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.observer: ExecutionTraceObserver | None = None
        self.written: Path | None = None

    def start(self) -> None:
        """Start a window."""
        self._discard()
        # Hidden until it is whole: no reader takes a name with a leading dot.
        self.written = self.folder / f".torch_et_{rank()}.{os.getpid()}.json"
        self.observer = ExecutionTraceObserver()
        self.observer.register_callback(str(self.written))
        self.observer.start()

    def stop(self) -> None:
        """End a window and finish its file."""
        if self.observer is not None:
            self.observer.stop()
            self.observer.unregister_callback()
            self.observer = None

    def cleanup(self) -> None:
        """End the profiler; remove the file of a window that was not exported."""
        self.stop()
        self._discard()

    def put_beside(self, trace: Path) -> None:
        """Name the file after the rank, in the folder of the Kineto trace just written."""
        if self.written is not None and self.written.exists():
            self.written.replace(trace.parent / f"torch_et_{rank()}.json")
        self.written = None

    def _discard(self) -> None:
        if self.written is not None:
            self.written.unlink(missing_ok=True)
            self.written = None


def observe(folder: Path) -> None:
    """Attach an observer to every profiler of this process; unfinished files are in ``folder``."""
    initialise, export = profile.__init__, profile.export_chrome_trace

    @functools.wraps(initialise)
    def with_observer(self: Any, *args: Any, **options: Any) -> None:
        if options.get("execution_trace_observer") is None:
            options["execution_trace_observer"] = WindowObserver(folder)
        initialise(self, *args, **options)

    @functools.wraps(export)
    def with_execution_trace(self: Any, path: str, *args: Any, **options: Any) -> Any:
        result = export(self, path, *args, **options)
        if isinstance(self.execution_trace_observer, WindowObserver):
            self.execution_trace_observer.put_beside(Path(path))
        return result

    profile.__init__ = with_observer
    profile.export_chrome_trace = with_execution_trace


def answer_requests_for_dumps() -> None:
    """Have a thread dump on request, where PyTorch can dump without NCCL (2.10 and newer)."""
    take = getattr(torch._C._distributed_c10d, "_dump_fr_trace", None)
    if take is None:
        return
    pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + f"{rank()}.pipe"
    dump = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank())
    everything = {"includeCollectives": True, "includeStackTraces": True, "onlyActive": False}
    answer_requests(Path(pipe), Path(dump), functools.partial(take, **everything))


def main() -> None:
    """Attach the observer, then run the program."""
    if len(sys.argv) < 2:
        sys.exit("train_with_traces.py: name a module or a script")
    program = sys.argv[1]
    sys.argv = sys.argv[1:]
    # The folder of this file stands first; a program must not find our modules for its own.
    sys.path[0] = str(Path(program).resolve().parent) if program.endswith(".py") else ""
    if os.environ.get("PROFILER", "torch") == "torch":
        folder = Path(os.environ.get("TRACE_DIR", "."))
        folder.mkdir(parents=True, exist_ok=True)
        observe(folder)
    elif os.environ.get("NSYS_STEPS"):
        record_steps(os.environ["NSYS_STEPS"])
    if os.environ.get("FR_ON_REQUEST") == "1":
        answer_requests_for_dumps()
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
