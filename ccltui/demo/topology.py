"""Coordinates, hosts and communicators of the ranks of a job."""

from __future__ import annotations

import hashlib
from itertools import product

from msgspec import Struct

from ccltui.demo.spec import Dimension, Spec

DESCRIPTIONS: dict[Dimension, str] = {
    "world": "default_pg",
    "pp": "mesh_pp",
    "dp_replicate": "mesh_dp_replicate",
    "dp_shard": "mesh_dp_shard",
    "tp": "mesh_tp",
    "ep": "mesh_ep",
    "cp": "mesh_cp",
    "own": "undefined",  # of a rank with itself
}


class Place(Struct, frozen=True):
    """Coordinates of a rank in the grid."""

    pp: int
    dp_replicate: int
    dp_shard: int
    tp: int


class DemoGroup(Struct, frozen=True):
    """A communicator: ``name`` is the label in the traces, ``ranks`` are sorted."""

    index: int
    dimension: Dimension
    name: str
    ranks: tuple[int, ...]

    @property
    def description(self) -> str:
        """The profiler's text for this kind of group."""
        return DESCRIPTIONS[self.dimension]

    @property
    def comms_id(self) -> int:
        """A 64-bit id above 2**63, as real ones may be."""
        digest = hashlib.sha256(f"{self.dimension}{self.ranks}".encode()).digest()
        return int.from_bytes(digest[:8], "big") | 1 << 63


class Topology(Struct, frozen=True):
    """Places and groups of all ranks."""

    places: tuple[Place, ...]
    groups: tuple[DemoGroup, ...]
    gpus_per_node: int

    def host_of(self, rank: int) -> int:
        """Index of the host that a rank runs on."""
        return rank // self.gpus_per_node

    def host_name(self, rank: int) -> str:
        """Name of that host."""
        return f"demo-node-{self.host_of(rank) + 1}"

    def device_of(self, rank: int) -> int:
        """Device ordinal of a rank on its host."""
        return rank % self.gpus_per_node

    def group_of(self, dimension: Dimension, rank: int) -> DemoGroup | None:
        """The rank's group along a dimension, None where the degree is 1."""
        for group in self.groups:
            if group.dimension == dimension and rank in group.ranks:
                return group
        return None

    def groups_of(self, rank: int) -> tuple[DemoGroup, ...]:
        """All groups that a rank belongs to, the world first."""
        return tuple(group for group in self.groups if rank in group.ranks)

    def within_host(self, ranks: tuple[int, ...]) -> bool:
        """Whether all these ranks share a host."""
        return len({self.host_of(rank) for rank in ranks}) == 1


def lay_out(spec: Spec) -> Topology:
    """Lay out ranks in TorchTitan's order, the tensor-parallel coordinate innermost."""
    degrees = (spec.pp, spec.dp_replicate, spec.dp_shard, spec.tp)
    places = tuple(Place(*place) for place in product(*map(range, degrees)))
    rank_sets: list[tuple[Dimension, tuple[int, ...]]] = [("world", tuple(range(len(places))))]
    axes: tuple[tuple[Dimension, str], ...] = (
        ("pp", "pp"),
        ("dp_replicate", "dp_replicate"),
        ("dp_shard", "dp_shard"),
        ("tp", "tp"),
        # Experts are distributed over the dp_shard ranks.
        *((("ep", "dp_shard"),) if spec.experts else ()),
    )
    for dimension, axis in axes:
        if getattr(spec, axis) > 1:
            rank_sets += [(dimension, ranks) for ranks in _lines(places, axis)]
    kinds = list(dict.fromkeys(dimension for dimension, _ in rank_sets))
    groups = tuple(
        DemoGroup(
            index,
            dimension,
            str(kinds.index(dimension) if spec.local_group_names else index),
            ranks,
        )
        for index, (dimension, ranks) in enumerate(rank_sets)
    )
    return Topology(places, groups, spec.gpus_per_node)


def _lines(places: tuple[Place, ...], axis: str) -> list[tuple[int, ...]]:
    """Rank sets that differ only along one axis, ordered by their lowest rank."""
    lines: dict[tuple[int, ...], list[int]] = {}
    for rank, place in enumerate(places):
        others = tuple(
            getattr(place, name)
            for name in ("pp", "dp_replicate", "dp_shard", "tp")
            if name != axis
        )
        lines.setdefault(others, []).append(rank)
    return [tuple(ranks) for ranks in lines.values()]
