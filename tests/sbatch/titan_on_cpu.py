"""torchtitan 0.2.2 on a machine without accelerators: device «cpu», backend gloo.

Stands in for ``torchtitan.train`` in the slow tests. Each function removes one assumption of
torchtitan or PyTorch that there is an accelerator; nothing of what is trained changes.
"""

from __future__ import annotations

import functools
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._utils
import torch.distributed
from torch.distributed.fsdp import FSDPModule
from torch.profiler import profile

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "sbatch"))
from titan_small import attend_locally, count_without_integers, shrink_flavors

from gpt.ending import end_process


class CpuProperties:
    """What torchtitan's memory monitor asks a device for."""

    name = "cpu"
    total_memory = 24 << 30


def properties(*_: object) -> type[CpuProperties]:
    """What a device tells of itself."""
    return CpuProperties


def find_the_cpu() -> None:
    """Let the only device there is be found, with the functions that an accelerator has."""
    torch._utils._get_available_device_type = lambda: "cpu"
    device: Any = torch.cpu
    device.current_device = lambda: 0
    absent: dict[str, Callable[..., Any]] = {
        "get_device_properties": properties,
        "get_device_name": lambda *_: CpuProperties.name,
        "memory_stats": lambda *_: {},
        "reset_peak_memory_stats": lambda *_: None,
        "empty_cache": lambda: None,
        "set_device": lambda *_: None,
    }
    for name, function in absent.items():
        if not hasattr(device, name):
            setattr(device, name, function)


def profile_without_a_device() -> None:
    """torchtitan names None as the activity of a device that is not there."""
    initialise = profile.__init__

    @functools.wraps(initialise)
    def without_none(self: Any, *args: Any, activities: Any = None, **options: Any) -> None:
        activities = [activity for activity in activities or () if activity is not None]
        initialise(self, *args, activities=activities or None, **options)

    profile.__init__ = without_none


def wait_for_all() -> None:
    """A barrier of gloo knows no device ids."""
    barrier = torch.distributed.barrier

    @functools.wraps(barrier)
    def without_ids(*args: Any, device_ids: Any = None, **options: Any) -> Any:
        return barrier(*args, **options)

    torch.distributed.barrier = without_ids


def divide_after_summing() -> None:
    """gloo cannot scale while it reduces."""
    divide = FSDPModule.set_gradient_divide_factor

    @functools.wraps(divide)
    def and_sum(self: Any, factor: float) -> None:
        divide(self, factor)
        self.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = and_sum


def main() -> None:
    """Become torchtitan."""
    find_the_cpu()
    profile_without_a_device()
    wait_for_all()
    divide_after_summing()
    count_without_integers()
    attend_locally()
    shrink_flavors()
    torch.set_num_threads(1)
    sys.argv[0] = "torchtitan.train"
    runpy.run_module("torchtitan.train", run_name="__main__", alter_sys=True)


main()
end_process(0)
