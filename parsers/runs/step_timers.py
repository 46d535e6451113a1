"""Timers that training programs print of the parts of a step: those of DeepSpeed and of Megatron.

DeepSpeed prints one number for each part, of the rank that prints. Megatron prints the least and
the most over the ranks of each part (``--timing-log-option minmax``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from ccltui.parsers.text.bounded_text import BoundedText

_DEEPSPEED: Final = re.compile(r"time \(ms\) \| (?P<parts>\w[^\n]{0,600})")
_PART: Final = re.compile(r"(\w+): (\d{1,12}(?:\.\d{1,6})?)")
_NAMES: Final = {
    "forward": "forward",
    "fwd": "forward",
    "backward": "backward",
    "bwd": "backward",
    "backward_allreduce": "reduction",
    "bwd_allreduce": "reduction",
    "step": "optimizer",
}
_MICRO: Final = "_microstep"
_MEGATRON: Final = re.compile(
    r"\(min, max\) time across ranks \(ms\):[^\n]{0,20}\n"
    r"(?P<rows>(?:[^\n]{0,80}\.{3,}: \([^\n]{3,60}\)\n?)+)"
)
_ROW: Final = re.compile(r"([a-z][\w-]{2,60}) \.{3,}: \((\d{1,12}\.\d{1,6}), (\d{1,12}\.\d{1,6})\)")
_MOST: Final = 100_000


class StepTimers(Struct, frozen=True):
    """Times in ms of each line that states them.

    ``parts`` are of one rank, by "forward", "backward" (without reduction), "reduction" of
    gradients and "optimizer"; ``is_micro`` where they are of micro-steps. ``ranges`` are least and
    most over ranks, by the name of the program.
    """

    parts: Mapping[str, list[float]] = field(default_factory=dict)
    ranges: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    is_micro: bool = False


def read_timers(text: BoundedText) -> StepTimers:
    """Return what the timers in a log state."""
    whole: dict[str, list[float]] = defaultdict(list)
    micro: dict[str, list[float]] = defaultdict(list)
    ranges: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for part in text.plain_parts:
        if "time (ms) |" in part:
            for match in _DEEPSPEED.finditer(part):
                _take(match["parts"], whole, micro)
        if "time across ranks" in part:
            for block in _MEGATRON.finditer(part):
                for name, least, most in _ROW.findall(block["rows"]):
                    ranges[name].append((float(least), float(most)))
    chosen = whole or micro
    kept = {name: times[-_MOST:] for name, times in chosen.items()}
    return StepTimers(kept, dict(ranges), bool(micro) and not whole)


def _take(text: str, whole: dict[str, list[float]], micro: dict[str, list[float]]) -> None:
    """Add one line of DeepSpeed: those of a micro-step and of a step are lines of their own."""
    found: dict[str, float] = {}
    is_micro = _MICRO in text
    for name, number in _PART.findall(text):
        known = _NAMES.get(name.removesuffix(_MICRO))
        if known is not None:
            found[known] = float(number)
    if "backward" in found and "reduction" in found:
        found["backward"] = max(found["backward"] - found["reduction"], 0.0)
    if {"forward", "backward"} <= found.keys():
        for name, value in found.items():
            (micro if is_micro else whole)[name].append(value)
