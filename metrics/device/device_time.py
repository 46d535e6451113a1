"""Divide the measured time of devices into computation, communication, copies and idle time.

Communication is also summed by library, and work that may be communication is listed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.model.classify import COMM, COMP, few_texts
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.data_quality import guessed_steps, without_device_times
from ccltui.metrics.view.provenance import answer
from ccltui.parsers.communication_kernels import communication_kernel, resembles_communication

if TYPE_CHECKING:
    from ccltui.metrics.result import MetricDefinition, Result
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


def device_ranks(view: View) -> list[RankView]:
    """Return the ranks whose kernels were recorded.

    Raises:
        Refusal: no rank has kernels, or the selection has no device work.
    """
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels]
    if not ranks:
        kind = "CPU-only trace"
        if any(rank.facts.has_device for rank in view.ranks):
            kind = "only copies and the like ran on the device"
        elif not any(rank.trace.is_of_profiler for rank in view.ranks):
            kind = "no event of a category that PyTorch writes"
        raise without_device_times(view, f"{kind}: no kernel was recorded on any rank")
    if not any(rank.window_ns for rank in ranks):
        raise refuse("window_empty", "no device work in the steps or the window")
    return ranks


def device_reasons(view: View) -> list[Reason]:
    """Return why numbers of device time are partial: ranks without kernels, steps only guessed.

    Of ranks whose device has a wrong clock every result has a reason.
    """
    without_kernels = [
        Reason("no_gpu_events", _without_kernels(rank), rank=rank.label)
        for rank in view.ranks
        if not rank.facts.has_kernels and not rank.facts.has_wrong_clock
    ]
    return [*without_kernels, *guessed_steps(view)]


def device_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    basis: Mapping[str, str],
    reasons: Sequence[Reason] = (),
) -> Result:
    """Return the result of a metric of `device_ranks`, as `answer`, with `device_reasons`."""
    return answer(
        metric,
        view,
        details,
        source="kernel",
        basis=basis,
        reasons=[*reasons, *device_reasons(view)],
    )


def _without_kernels(rank: RankView) -> str:
    if rank.facts.has_device:
        return f"rank {rank.label} has device work, but no kernel"
    return f"rank {rank.label} is a CPU-only trace"


def require_communication_on_device(ranks: Sequence[RankView]) -> None:
    """Refuse where collectives were recorded and none of them ran on the device.

    A job without collectives is not refused: its communication time is 0.

    Raises:
        Refusal: all collectives ran on the host.
    """
    every = [rank.recorded_calls for rank in ranks]
    hosted = [calls for calls in every if len(calls) and calls.source != "kernel"]
    if hosted and not any(len(rank.facts.in_collectives) for rank in ranks):
        source = hosted[0].source
        raise refuse(
            "no_collectives",
            f"the collectives ran on the host ({source}): they occupy no time of the device",
        )


_LISTED: Final = 20
_COPY: Final = re.compile(r"memcpy ", re.IGNORECASE)
_COPY_BETWEEN_DEVICES: Final = re.compile(r"memcpy (?:ptop|peer)", re.IGNORECASE)

_BY_WORDS: Final = "kernels_by_words"
_SIMILAR: Final = "kernels_like_communication"
_COPIES: Final = "copies_between_devices"


def communication_work(ranks: Sequence[RankView]) -> dict[str, Any]:
    """Return the time of communication by library, and work that may be communication.

    Returns:
        ``by_library``: number and summed time of communication; "metadata" is work that only its
        metadata tells, "copy engine" are copies that execute a collective.
        ``kernels_by_words``: kernels that are counted because words of their names suggest a
        collective. ``kernels_like_communication``: kernels that are not counted, with such a word
        in their name. ``copies_between_devices``: copies that belong to no recorded collective.
        The lists have at most twenty bare names each, with number and summed time.
    """
    library: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    found: dict[str, defaultdict[str, list[int]]] = {
        key: defaultdict(lambda: [0, 0]) for key in (_BY_WORDS, _SIMILAR, _COPIES)
    }
    for rank in ranks:
        for text_id, kind, calls, total_ns in rank.work_by_name.rows():
            name = rank.trace.text(text_id) if text_id >= 0 else ""
            if kind == COMM:
                _add(library[_library_of(name)], calls, total_ns)
            key = _listed_as(name, kind)
            if key is not None:
                _add(found[key][bare_name(name)], calls, total_ns)
    return {
        "by_library": {
            name: {"calls": calls, "time_ms": milliseconds(ns)}
            for name, (calls, ns) in _longest_first(library)
        },
        **{key: _rows(rows) for key, rows in found.items()},
    }


def unrecorded_copies(ranks: Sequence[RankView]) -> int:
    """Return the number of copies between devices that belong to no recorded collective."""
    found = 0
    for rank in ranks:
        texts = few_texts(rank.trace.strings)
        if texts is not None and not _name_copies(texts):
            continue  # sums of all work take far longer than the names
        for text_id, kind, calls, _ in rank.work_by_name.rows():
            name = rank.trace.text(text_id) if text_id >= 0 else ""
            found += calls if _listed_as(name, kind) == _COPIES else 0
    return found


@lru_cache(maxsize=64)
def _name_copies(texts: tuple[str, ...]) -> bool:
    """Whether a name is that of a copy between devices."""
    return any(map(_COPY_BETWEEN_DEVICES.match, texts))


def _library_of(name: str) -> str:
    known = communication_kernel(name)
    if known is not None:
        return known.library
    return "copy engine" if _COPY.match(name) else "metadata"


def _listed_as(name: str, kind: int) -> str | None:
    """Return the list that work of a name and class belongs to, None for most work."""
    if kind == COMM:
        known = communication_kernel(name)
        return _BY_WORDS if known is not None and not known.is_certain else None
    if kind == COMP:
        return _SIMILAR if resembles_communication(name) else None
    return _COPIES if _COPY_BETWEEN_DEVICES.match(name) else None


def _add(row: list[int], calls: int, total_ns: int) -> None:
    row[0] += calls
    row[1] += total_ns


def _longest_first(found: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
    return sorted(found.items(), key=lambda item: (-item[1][1], item[0]))


def _rows(found: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "calls": calls, "time_ms": milliseconds(ns)}
        for name, (calls, ns) in _longest_first(found)[:_LISTED]
    ]
