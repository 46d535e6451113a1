"""Group the device work of a rank by name, category, operator, path, stream or rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.metrics.device.launch_origin import operator_rows, path_rows
from ccltui.metrics.device.work_pivot import Group, Grouping
from ccltui.metrics.model.classify import COMM, MEM
from ccltui.metrics.model.kernel_names import bare_name, category_of

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64

CLASSES: Final = ("comm", "comp", "mem")
"""Names of the classes COMM, COMP and MEM."""
PATH_SEPARATOR: Final = " / "


def category(text: str, kind: int) -> str:
    """Return the category of a kernel of a class: "comm", "mem", or that of its name."""
    return "comm" if kind == COMM else "mem" if kind == MEM else category_of(text)


def by_name(rank: RankView) -> Grouping:
    """Group by bare name and class; the full names are the texts."""
    names, kinds, index = _names(rank)
    keys = [(bare_name(name), CLASSES[kind]) for name, kind in zip(names, kinds, strict=True)]
    return Grouping(index, keys, names)


def by_category(rank: RankView) -> Grouping:
    """Group by category."""
    names, kinds, index = _names(rank)
    keys = [(category(name, kind),) for name, kind in zip(names, kinds, strict=True)]
    return Grouping(index, keys, names)


def by_operator(rank: RankView) -> Grouping:
    """Group by the host operator of the launch and the recorded shapes of its inputs."""
    operators, rows = rank.trace.group("cpu_ops"), operator_rows(rank)
    names = np.append(operators.name, -1)[rows].astype(np.int64)
    shapes = np.append(operators.sparse("shapes"), -1)[rows].astype(np.int64)
    size = len(rank.trace.strings) + 1
    codes, index = unique_inverse((names + 1) * size + shapes + 1)
    text = rank.trace.text
    keys = [(text(code // size - 1) or None, text(code % size - 1) or None) for code in codes]
    return Grouping(index, keys, [key[0] or "" for key in keys])


def by_path(rank: RankView) -> Grouping:
    """Group by the ranges of the user and modules around the launch."""
    rows, paths = path_rows(rank)
    texts = [PATH_SEPARATOR.join(path) for path in paths]
    keys = [*((text,) for text in texts), (None,)]
    return Grouping(np.where(rows >= 0, rows, len(paths)), keys, [*texts, ""])


def by_stream(rank: RankView) -> Grouping:
    """Group by stream, whatever the device."""
    streams = [track.stream for track in rank.trace.tracks]
    keys = [(f"stream {stream}" if stream >= 0 else None,) for stream in streams]
    index = np.append(np.arange(len(keys)), len(keys))[rank.trace.group("gpu").track]
    return Grouping(index, [*keys, (None,)], [*(key[0] or "" for key in keys), ""])


def by_rank(rank: RankView) -> Grouping:
    """Put all work of a rank into one group."""
    key = f"rank {rank.label}"
    return Grouping(np.zeros(len(rank.trace.group("gpu")), np.int64), [(key,)], [key])


PIVOTS: Final[Mapping[str, Group]] = {
    "name": by_name,
    "category": by_category,
    "operator": by_operator,
    "module": by_path,
    "stream": by_stream,
    "rank": by_rank,
}
"""Groupings by the name of what they group by."""


def _names(rank: RankView) -> tuple[list[str], list[int], I64]:
    """Distinct full names with their classes, and the index of each row of ``gpu`` in them."""
    gpu, num = rank.trace.group("gpu"), len(CLASSES)
    code = (gpu.name.astype(np.int64) + 1) * num + rank.facts.classes
    present = np.flatnonzero(np.bincount(code, minlength=1))
    place = np.zeros(int(present[-1]) + 1 if len(present) else 1, np.int64)
    place[present] = np.arange(len(present))
    names = [rank.trace.text(one // num - 1) for one in present.tolist()]
    return names, [one % num for one in present.tolist()], place[code]
