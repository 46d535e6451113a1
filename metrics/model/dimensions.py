"""Determine the parallel dimension of communicators and calls.

Rules, the first that applies: the description of the group; its ranks in the grid that the degrees
of the card span; the operation (point-to-point, all-to-all); else world or unknown.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, structs

from ccltui.metrics.arrays.reductions import is_one_value, repeated
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import WORLD_NAMES, CommGroup, Ranks, relabelled
from ccltui.parsers.array_types import I8

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls

DIMS: Final = ("dp", "tp", "pp", "ep", "cp", "world", "unknown")
MODES: Final = ("process_group", "rank_grid", "heuristic", "unknown")

Axes = list[tuple[str, int]]
"""Axes of a grid of ranks with their degrees, inner to outer."""

_SHORT: Final = {
    "dp": "dp",
    "ddp": "dp",
    "fsdp": "dp",
    "hsdp": "dp",
    "tp": "tp",
    "pp": "pp",
    "cp": "cp",
    "ep": "ep",
}
_MESH: Final = {  # words of TorchTitan, only in "mesh_…"
    "batch": "dp",
    "loss": "dp",
    "efsdp": "dp",
    "etp": "tp",
}
_LONG: Final = {  # only together with the word "parallel"
    "data": "dp",
    "tensor": "tp",
    "pipeline": "pp",
    "context": "cp",
    "expert": "ep",
}


class Degrees(Struct, frozen=True):
    """Parallel degrees of the job, None where neither the card nor the user states one.

    A degree of zero or less is automatic: it makes the product equal to the world size.
    """

    dp_replicate: int | None = None
    dp_shard: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None

    def completed(self, world_size: int | None) -> Degrees | None:
        """Return degrees whose product is the world size.

        One unknown degree follows from the others; where the product of the stated ones is the
        world size, the unknown ones are 1. ``ep`` lies across the others and is a factor only where
        the product of the others leaves exactly ``ep``.

        Returns:
            The degrees, None where they do not divide the world or too few are known.
        """
        names = ("dp_replicate", "dp_shard", "tp", "pp", "cp")
        stated = {name: getattr(self, name) for name in names}
        known = {name: value for name, value in stated.items() if value is not None and value > 0}
        if world_size is None or not known:
            return None
        rest, remainder = divmod(world_size, math.prod(known.values()))
        automatic = [name for name, value in stated.items() if value is not None and value <= 0]
        unknown = automatic or [name for name in names if name not in known]
        if remainder or (rest > 1 and len(unknown) != 1 and rest != self.ep):
            return None
        found = dict.fromkeys(names, 1) | known
        if rest > 1 and len(unknown) == 1:
            found[unknown[0]] = rest
        return Degrees(**found, ep=self.ep or 1)


def with_dimensions(
    groups: Sequence[CommGroup], degrees: Degrees, world_size: int | None
) -> tuple[CommGroup, ...]:
    """Return the groups with ``dim``, ``mode``, ``axis`` and a label that contains them."""
    grid = rank_grid(degrees, world_size)
    return relabelled([_with_dimension(group, grid, world_size) for group in groups])


def _with_dimension(
    group: CommGroup, grid: Mapping[Ranks, frozenset[str]], world_size: int | None
) -> CommGroup:
    axis = axis_of_description(group.description)
    if axis:
        return structs.replace(group, dim=_dim(axis), axis=axis, mode="process_group")
    axes = grid.get(group.ranks, frozenset())
    dims = {_dim(axis) for axis in axes}
    if len(dims) == 1:
        dim = dims.pop()
        axis = next(iter(axes)) if len(axes) == 1 else dim
        return structs.replace(group, dim=dim, axis=axis, mode="rank_grid")
    if group.description.lower() in WORLD_NAMES and len(group.ranks) in (0, world_size):
        return structs.replace(group, dim="world", mode="process_group")
    return group


def axis_of_description(description: str) -> str:
    """Return the axis that a description names in whole words, "" where it names none or several.

    ``mesh_dp_shard_cp`` is dp_shard, ``TENSOR_MODEL_PARALLEL_GROUP`` tp,
    ``EXPERT_DATA_PARALLEL_GROUP`` dp.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", description.lower()) if word]
    known = _SHORT | (_LONG if "parallel" in words else {}) | (_MESH if "mesh" in words else {})
    dims = {known[word] for word in words if word in known}
    if "and" in words and len(dims) > 1:
        return ""
    if "dp" in dims:
        return _data_axis(words) if dims <= {"dp", "cp", "ep"} else ""
    if dims == {"ep", "tp"} and "parallel" in words:
        return "tp"  # tensor parallelism inside the experts
    return dims.pop() if len(dims) == 1 else ""


def _data_axis(words: Sequence[str]) -> str:
    if "replicate" in words:
        return "dp_replicate"
    return "dp_shard" if {"shard", "fsdp", "efsdp"} & set(words) else "dp"


def _dim(axis: str) -> str:
    return "dp" if axis.startswith("dp") else axis


def rank_grid(degrees: Degrees, world_size: int | None) -> dict[Ranks, frozenset[str]]:
    """Return the axes by the sets of ranks that they span; {} where degrees do not fit the world.

    TorchTitan orders its mesh (outer to inner) pp, dp_replicate, dp_shard, cp, tp; Megatron
    (inner to outer) tp, cp, ep, dp, pp. Without experts the two orders are equal. Experts either
    lie across data and context parallelism (both frameworks place them directly outside tp), or,
    in Megatron, are a dimension of their own.
    """
    full = degrees.completed(world_size)
    if full is None or world_size is None:
        return {}
    inner: Axes = [("tp", full.tp or 1), ("cp", full.cp or 1)]
    outer: Axes = [
        ("dp_shard", full.dp_shard or 1),
        ("dp_replicate", full.dp_replicate or 1),
        ("pp", full.pp or 1),
    ]
    expert = full.ep or 1
    dense = [*inner, *outer]
    sets: defaultdict[Ranks, set[str]] = defaultdict(set)
    if math.prod(degree for _, degree in dense) == world_size:
        _collect(sets, dense, world_size, _SPANS)
        lower, upper = full.tp or 1, full.pp or 1
        between, remainder = divmod(world_size, lower * expert * upper)
        if not remainder:
            across = [("tp", lower), ("ep", expert), ("rest", between), ("pp", upper)]
            _collect(sets, across, world_size, {"ep": ("ep",)})
    else:
        own = [*inner, ("ep", expert), *outer]
        _collect(sets, own, world_size, _SPANS | {"ep": ("ep",)})
    return {ranks: frozenset(axes) for ranks, axes in sets.items()}


# Axes that a communicator may span: one axis, or the unions that frameworks create.
_SPANS: Final = {
    "tp": ("tp",),
    "cp": ("cp",),
    "pp": ("pp",),
    "dp_shard": ("dp_shard",),
    "dp_replicate": ("dp_replicate",),
    "dp": ("dp_shard", "dp_replicate"),
    "dp_shard with cp": ("dp_shard", "cp"),
    "dp with cp": ("dp_shard", "dp_replicate", "cp"),
}


def _collect(
    sets: defaultdict[Ranks, set[str]],
    axes: Axes,
    world_size: int,
    spans: Mapping[str, tuple[str, ...]],
) -> None:
    degree = dict(axes)
    names = [name for name, _ in reversed(axes)]
    ranks = np.arange(world_size).reshape([degree[name] for name in names])
    for axis, members in spans.items():
        if all(degree[name] > 1 for name in members):
            last = list(range(-len(members), 0))
            moved = np.moveaxis(ranks, [names.index(name) for name in members], last)
            size = math.prod(degree[name] for name in members)
            for row in np.sort(moved.reshape(-1, size)).tolist():
                sets[tuple(row)].add(axis.partition(" ")[0])


def dims_of_groups(groups: Sequence[CommGroup]) -> tuple[I8, I8]:
    """Return the indices into DIMS and into MODES of each group and, last, of no group, int8."""
    dims = np.array([DIMS.index(g.dim) for g in groups] + [_UNKNOWN_DIM], np.int8)
    return dims, np.array([MODES.index(g.mode) for g in groups] + [_UNKNOWN_MODE], np.int8)


def dims_of_calls(calls: Calls, of_groups: tuple[I8, I8], degrees: Degrees) -> tuple[I8, I8]:
    """Return the indices into DIMS and into MODES of each call, int8.

    ``of_groups`` are those of the groups that the calls index, of `dims_of_groups`.

    Where description and ranks of the group do not determine the dimension, the operation does, if
    it is named (by a kernel's metadata, or as an operator): send and receive are pipeline traffic,
    all-to-all is expert traffic (context traffic if there are no experts). The operation cannot
    distinguish data from tensor parallelism.
    """
    columns = calls.group, calls.kind, calls.has_metadata
    are_alike = all(is_one_value(column) for column in columns)
    group, kind, has_metadata = (one[:1] for one in columns) if are_alike else columns
    # One row for each group and, last, none; one column for no kind, and one for each of TYPES.
    cell = group * np.int32(len(TYPES) + 1) + kind + np.int32(1)
    named = _with_operations(of_groups, degrees)
    dims, modes = (table.take(cell) for table in named)
    if calls.source == "kernel" and not has_metadata.all():
        nameless = ~has_metadata
        dims[nameless], modes[nameless] = (of_group.take(group[nameless]) for of_group in of_groups)
    if are_alike:
        return repeated(dims, len(calls)), repeated(modes, len(calls))
    return dims, modes


def _with_operations(of_groups: tuple[I8, I8], degrees: Degrees) -> tuple[I8, I8]:
    """Return dimension and mode of each group with each named operation, int8 [group, 1 + type]."""
    dims, modes = (np.repeat(one[:, np.newaxis], len(TYPES) + 1, axis=1) for one in of_groups)
    is_open = (of_groups[0] == _UNKNOWN_DIM) | (of_groups[0] == DIMS.index("world"))
    exchange = "cp" if (degrees.cp or 1) > 1 and degrees.ep == 1 else "ep"
    for kind, dim in (("Send", "pp"), ("Recv", "pp"), ("AllToAll", exchange)):
        dims[is_open, TYPES.index(kind) + 1] = DIMS.index(dim)
        modes[is_open, TYPES.index(kind) + 1] = MODES.index("heuristic")
    return dims, modes


_UNKNOWN_DIM = DIMS.index("unknown")
_UNKNOWN_MODE = MODES.index("unknown")
