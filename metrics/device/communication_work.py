"""Sum the kernel time of communication by library, and list work that may be communication."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.model.classify import COMM, COMP
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.parsers.communication_kernels import communication_kernel, resembles_communication

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

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
        table = rank.work_by_name
        columns = (table.name.tolist(), table.kind, table.calls.tolist(), table.total_ns.tolist())
        for text_id, kind, calls, total_ns in zip(*columns, strict=True):
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
        table = rank.work_by_name
        for text_id, kind, calls in zip(
            table.name.tolist(), table.kind, table.calls.tolist(), strict=True
        ):
            name = rank.trace.text(text_id) if text_id >= 0 else ""
            found += calls if _listed_as(name, kind) == _COPIES else 0
    return found


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
