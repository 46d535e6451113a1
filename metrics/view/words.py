"""Ranks, names and factors as a person says them: ``ranks 0-5 and 7``, ``2.2 times as long``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ccltui.parsers.numbers import percent
from ccltui.parsers.safe_text import natural_key
from ccltui.parsers.window import ranges_text

_LONGEST_NAME: Final = 48
"""Characters of a kernel's name in a sentence; names of templates have thousands."""
_END: Final = 18
"""Characters of the end of a cut name."""


_TIMES_FROM: Final = 1.5
"""Factor from which on a time is stated as a multiple, below it as a difference in percent."""


def factor(value: float) -> str:
    """Return how many times as long something takes as words: ``6 % longer``, ``2.2 times``."""
    if value < _TIMES_FROM:
        return f"{percent(value - 1)} longer".replace(".0 %", " %")
    return f"{value:.2g} times as long" if value < 10 else f"{value:,.0f} times as long"


def longer_than(value: float | None, usual: str) -> str:
    """Return ``6 % longer than its peers``, ``2.2 times as long as its peers``."""
    if value is None:
        return f"longer than {usual}"
    return f"{factor(value)} {'as' if value >= _TIMES_FROM else 'than'} {usual}"


_MOST_PARTS: Final = 4
"""Parts of a list in a sentence: what a reader takes in at once."""


def ranks_text(labels: Collection[str]) -> str:
    """Return ``rank 2``, ``ranks 0 and 6``, ``ranks 0-5 and 7``; long lists as a number.

    A rank without a number is called by what stands for it: ``GPU 1 of trace.csv``.
    """
    ordered = sorted(labels, key=natural_key)
    if not all(one.isdecimal() for one in ordered):
        return numbers_text([_without_number(one) for one in ordered])
    return f"{'rank' if len(ordered) == 1 else 'ranks'} {numbers_text(ordered)}"


def _without_number(label: str) -> str:
    """Return the name of a rank that may have no number."""
    if label.isdecimal():
        return f"rank {label}"
    file, found, device = label.partition(" GPU ")
    return f"GPU {device} of {file}" if found else label


def numbers_text(labels: Sequence[str]) -> str:
    """Return numbers as ranges, other labels one by one, at most four parts."""
    numbers = [int(one) for one in labels if one.isascii() and one.isdecimal()]
    parts = list(labels)
    if len(numbers) == len(labels):
        ordered = sorted(set(numbers))
        parts = ranges_text(ordered, most=_MOST_PARTS).split(", ")
        if " more up to " in parts[-1]:
            return ranges_text(ordered, most=_MOST_PARTS - 1)
    if len(parts) > _MOST_PARTS:
        return f"{', '.join(parts[:3])} and {len(parts) - 3} more"
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def short_name(name: str) -> str:
    """Return a name for a sentence: without its middle where it is longer than reads well.

    Ends tell names apart: sizes of tiles, variants, the function in a scope, the ending of a file.
    """
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - _END - 1]}…{name[-_END:]}"


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with one full stop."""
    stripped = text.strip().rstrip(".")
    return f"{stripped[:1].upper()}{stripped[1:]}." if stripped else ""


_BEGINNINGS: Final = frozenset(
    (
        *("The", "Everyone", "All", "No", "Nothing", "Probably", "Times", "Rank", "Ranks", "Step"),
        *("Steps", "Stage", "Copies", "Operators", "Collectives", "Communication", "Pipeline"),
        *("Micro-batches", "Experts", "Transfers"),
    )
)
"""First words of findings that have a capital letter only there; any other may be a name."""


def inside(text: str) -> str:
    """Return a sentence as it stands within another one: ``the device is idle``."""
    is_plain = text.partition(" ")[0] in _BEGINNINGS
    return f"{text[:1].lower()}{text[1:]}" if is_plain else text


_LABELS: Final[Mapping[str, str]] = {
    "waiting_for_rank": "waiting for {who}",
    "slow_worker": "{who} computes slowly",
    "occasional_worker": "{who} is slow at times",
    "slow_node": "{who} computes slowly",
    "heavy_stage": "{who} has more work",
    "uneven_microbatches": "uneven micro-batches",
    "uneven_experts": "uneven experts",
    "slow_link": "slow link of {who}",
    "slow_replica": "slow replica {group}",
    "slow_layer": "slow {call} on {who}",
    "random": "times vary by chance",
    "pipeline_bubble": "pipeline bubble",
    "exposed_communication": "{call} not hidden",
    "data_loading": "host loads data",
    "host_allocation": "host allocates memory",
    "host_synchronisation": "host waits for the GPU",
    "checkpoint": "host saves a checkpoint",
    "garbage_collection": "Python collects garbage",
    "host_bound": "host launches too slowly",
    "launch_latency": "launch latency",
    "stream_dependency": "waiting for another stream",
    "kernel_gaps": "gaps between kernels",
    "idle_unknown": "idle, cause unknown",
    "copies": "copies not hidden",
    "compute_bound": "compute",
    "slow_steps": "slow {steps}",
    "cpu_bound": "operators on the host",
    "collective_wait": "collectives on the host",
    "uneven_ranks": "waiting for {who}",
    "kernel_totals": "kernels and calls",
    "range_totals": "ranges",
    "transfer_spread": "spread of one kernel",
    "counts": "operators and calls",
    "run_log": "log of the run",
    "choice": "several recordings",
    "hang": "the job hangs",
    "failure": "the job failed",
    "nothing": "no work is recorded",
}


def label_of(kind: str, where: Mapping[str, Any]) -> str:
    """Return a short name of a finding with its place: ``waiting for rank 0``."""
    # a rank is waited for, wherever it runs; a host is named for all of its ranks
    is_one = kind == "waiting_for_rank" and len(where["ranks"]) == 1
    return _LABELS[kind].format(
        who=ranks_text(where["ranks"]) if is_one else _who(where),
        call=_call(where),
        steps=_steps(where),
        group=where["group"],
    )


def _who(where: Mapping[str, Any]) -> str:
    if where["host"] is not None:
        return f"host {where['host']}"
    if where["stage"] is not None:
        return f"stage {where['stage']}"
    if where["ranks"]:
        return ranks_text(where["ranks"])
    return "ranks" if where["group"] is None else group_text(where["group"])


BETWEEN_HOSTS: Final = "between hosts"
"""In place of a group: the network between all hosts."""
STAGES: Final = "stages "
"""Beginning of the name of two stages of a pipeline, in place of a group."""


def group_text(group: str) -> str:
    """Return in words the group that a finding names: ``group dp``, ``stages 1 and 2``."""
    if group == BETWEEN_HOSTS:
        return "all hosts"
    return group if group.startswith(STAGES) else f"group {group}"


def _call(where: Mapping[str, Any]) -> str:
    kernel = where["kernel"]
    name = "communication" if kernel in (None, "unknown") else short_name(kernel)
    return name if where["group"] is None else f"{name} of {where['group']}"


def _steps(where: Mapping[str, Any]) -> str:
    steps = where["steps"]
    if len(steps) == 1:
        return f"step {steps[0]}"
    return f"steps {numbers_text([str(one) for one in steps])}" if steps else "steps"
