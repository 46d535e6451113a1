"""Convert events to the layout of profilers of 2021."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ccltui.demo.rank_events import Event

_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "ac2g": "async",
    "Trace": "Trace",
    "": "",
}
_DEVICE = ("Kernel", "Memcpy", "Memset")


def to_2021(event: Event) -> Event | None:
    """Convert an event to the categories, threads and arguments of 2021; None if it did not exist.

    Markers of steps are operators like any other, so a 2021 file has no step markers of its own
    category; copies of annotations on the device did not exist.
    """
    category = _CATEGORIES.get(event.cat)
    if category is None:
        return None
    if event.ph in ("s", "f"):
        tid = event.tid if event.ph == "s" else f"stream {event.tid}"
        return replace(event, cat=category, name="launch", tid=tid)
    if category in _DEVICE:
        return replace(
            event, cat=category, tid=f"stream {event.tid}", args=_device_args(event.args)
        )
    if category == "Operator":
        args = {
            "Device": event.pid,
            "External id": event.args["External id"],
            "Trace name": "PyTorch Profiler",
            "Trace iteration": 0,
        }
        return replace(event, cat=category, tid=str(event.tid), args=args)
    if category == "Runtime":
        return replace(event, cat=category, tid=str(event.tid), args=_device_args(event.args))
    return replace(event, cat=category)


def _device_args(args: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("External id", "external id"): value for key, value in args.items()}
