"""How a process that trained leaves: together with the others, and with its own status.

Both matter to gloo alone, on CPUs. NCCL's watchdog would let the others wait for minutes where one
rank failed, and it has no threads that outlive the work.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import torch
import torch.distributed as dist


def leave_together() -> None:
    """Wait for the other ranks: one that is gone takes what it still had to send with it."""
    if not torch.cuda.is_available():
        dist.barrier()


def end_process(status: int) -> NoReturn:
    """End with ``status``; on CPUs without taking the interpreter down first.

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
