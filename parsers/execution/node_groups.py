"""Process groups of an execution trace: a list in one node, and those that calls state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ccltui.parsers.columns import MISSING, ProcessGroup
from ccltui.parsers.execution.nodes import Node
from ccltui.parsers.kineto.tables.process_groups import groups_of_config

LISTED: Final = "## process_group:init ##"


def groups_of(nodes: Sequence[Node]) -> tuple[ProcessGroup, ...]:
    """The groups that the trace lists, in its order; () where it has no list.

    The group of all ranks is listed without ranks: they are 0 to its size.
    """
    found: dict[str, ProcessGroup] = {}
    for node in nodes:
        if node.name != LISTED:
            continue
        for text in node.inputs():
            for group in _listed(text):
                found.setdefault(group.name, group)
    return tuple(found.values())


def _listed(text: object) -> tuple[ProcessGroup, ...]:
    if not isinstance(text, str):
        return ()
    try:
        entries = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    groups = groups_of_config(entries)
    return tuple(_completed(group) for group in groups if group.name)


def _completed(group: ProcessGroup) -> ProcessGroup:
    if group.ranks or group.size <= 0 or group.description != "default_pg":
        return group
    return msgspec.structs.replace(group, ranks=tuple(range(group.size)))


def strided(start: int, stride: int, size: int) -> tuple[int, ...]:
    """Ranks of a call that states the first, the distance and the number; () where it does not."""
    if start < 0 or stride < 1 or not 0 < size <= 1 << 20:
        return ()
    return tuple(range(start, start + stride * size, stride))


def named(
    name: str, description: str, ranks: tuple[int, ...], size: int, table: Sequence[ProcessGroup]
) -> ProcessGroup:
    """The group that a call names, completed from the list."""
    for group in table:
        if group.name == name:
            return group
    return ProcessGroup(name, description, ranks, size if size > 0 else (len(ranks) or MISSING))
