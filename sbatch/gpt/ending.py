"""End a training process: after all ranks have finished, and with its own status.

Both functions act only with gloo, on CPUs. With NCCL a barrier would wait for minutes for the
watchdog where one rank failed, and NCCL has no threads that outlive the work.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import torch
import torch.distributed as dist


def leave_together() -> None:
    """Wait for the other ranks, because data that a process has not sent is lost when it exits."""
    if not torch.cuda.is_available():
        dist.barrier()


def end_process(status: int) -> NoReturn:
    """Exit with ``status``; on CPUs without finalising the interpreter.

    A model that shares its gradients keeps its process group, and with it the threads of gloo,
    beyond ``destroy_process_group``. One of them that drops the last tensor while the interpreter
    ends cannot have its lock any more and aborts the process (seen with PyTorch 2.13), which
    turns a run that is done into one that failed. A profiler of CUDA writes what it has in the
    handlers of an orderly end.
    """
    if torch.cuda.is_available():
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
