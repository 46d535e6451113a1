"""Collectives in an execution trace: what each call is, on which group, how large."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ccltui.parsers.columns import MISSING, ProcessGroup
from ccltui.parsers.execution.node_groups import named, strided
from ccltui.parsers.execution.nodes import Node, listed

PARAMS: Final = "record_param_comms"
_OPERATOR = re.compile(r"(?:c10d|_c10d_functional|_c10d_functional_autograd|c10d_functional)::")
_ANNOTATION = re.compile(r"(?:nccl|gloo|mpi|ucc|hccl|xccl):")
_FUNCTIONAL = re.compile(r"_?c10d_functional(?:_autograd)?::")
_TENSOR = 6
"""Numbers that stand for a tensor: id, storage, offset, elements, bytes of an element, device."""


@dataclass(frozen=True, slots=True)
class Call:
    """Metadata of a collective in one node; -1, "" and None where absent."""

    record_id: int
    node: str
    op: str = ""
    group: ProcessGroup | None = None
    group_size: int = MISSING
    seq: int = MISSING
    in_elems: int = MISSING
    out_elems: int = MISSING
    dtype: str = ""
    in_split: str = ""
    out_split: str = ""


def calls_of(nodes: Sequence[Node], table: Sequence[ProcessGroup]) -> tuple[Call, ...]:
    """All nodes that a collective shows as, in order of their record ids.

    An operator around or inside a recorded call has the group of that call: operators hold their
    group as an object that the trace does not spell out.
    """
    found: dict[int, Call] = {}
    for node in nodes:
        if node.record_id <= 0:
            continue
        if node.name == PARAMS:
            found[node.id] = _recorded(node, table)
        elif _OPERATOR.match(node.name) or _ANNOTATION.match(node.name):
            found[node.id] = _operator(node, table)
    parents = {node.id: node.parent for node in nodes if node.id in found}
    _share_groups(found, parents)
    return tuple(sorted(found.values(), key=lambda call: call.record_id))


def _share_groups(found: dict[int, Call], parents: Mapping[int, int]) -> None:
    """Groups go from the outer node to the inner and back, where only one of them states it."""
    pairs = [(node, parent) for node, parent in parents.items() if parent in found]
    for _ in range(3):  # a recorded call lies at most three deep: functional, c10d, recorded
        for inner, outer in pairs:
            one, other = found[inner], found[outer]
            if one.group is None and other.group is not None:
                found[inner] = replace(one, group=other.group, group_size=other.group_size)
            elif other.group is None and one.group is not None:
                found[outer] = replace(other, group=one.group, group_size=one.group_size)


def _recorded(node: Node, table: Sequence[ProcessGroup]) -> Call:
    """A recorded call: attributes where the version has them, else its inputs by their order."""
    call = _from_inputs(node, table)
    stated = node.attributes
    if not isinstance(stated.get("collective_name"), str):
        return call
    name, size = _text(stated.get("pg_name")), _integer(stated.get("pg_size"))
    start, stride = _integer(stated.get("global_rank_start")), stated.get("global_rank_stride")
    ranks = strided(start, _integer(stride), size)
    group = named(name, _text(stated.get("pg_desc")), ranks, size, table) if name else call.group
    return replace(
        call,
        op=_text(stated["collective_name"]),
        group=group,
        group_size=size if size > 0 else call.group_size,
        in_elems=_integer(stated.get("in_msg_nelems")),
        out_elems=_integer(stated.get("out_msg_nelems")),
        dtype=_text(stated.get("dtype")),
        in_split=_text(stated.get("in_split_size")),
        out_split=_text(stated.get("out_split_size")),
    )


def _from_inputs(node: Node, table: Sequence[ProcessGroup]) -> Call:
    """[tensors], sequence, group, rank, name, splits in, splits out, then sizes.

    The group is a number of the process, or its name and description. After the splits stands
    the size of the group, or its first rank, the distance of its ranks and its size.
    """
    values = node.inputs()
    at = next((i for i, value in enumerate(values) if _is_name(values, i)), None)
    if at is None or at < 3:
        return Call(node.record_id, node.name)
    rest = [value if _is_integer(value) else MISSING for value in values[at + 3 :]]
    size = rest[2] if len(rest) >= 3 else rest[0] if rest else MISSING
    ranks = strided(*rest[:3]) if len(rest) >= 3 else ()
    seq = values[at - 3]
    elements, dtype = first_tensor(values, listed(node.types))
    return Call(
        record_id=node.record_id,
        node=node.name,
        op=values[at],
        group=_group(values[at - 2], ranks, size, table),
        group_size=size,
        seq=_integer(seq[0] if isinstance(seq, list) and seq else seq),
        in_elems=elements,
        dtype=dtype,
        in_split=str(values[at + 1]) if values[at + 1] else "",
        out_split=str(values[at + 2]) if values[at + 2] else "",
    )


def _is_name(values: list[Any], at: int) -> bool:
    lists = len(values) > at + 2 and all(isinstance(v, list) for v in values[at + 1 : at + 3])
    return isinstance(values[at], str) and not values[at].startswith("<") and lists


def _group(
    value: object, ranks: tuple[int, ...], size: int, table: Sequence[ProcessGroup]
) -> ProcessGroup | None:
    if isinstance(value, list) and value and isinstance(value[0], str) and value[0]:
        description = value[1] if len(value) > 1 and isinstance(value[1], str) else ""
        return named(value[0], description, ranks, size, table)
    if _is_integer(value) and value:
        return ProcessGroup(str(value), "", ranks, size if size > 0 else MISSING)
    return None


def _operator(node: Node, table: Sequence[ProcessGroup]) -> Call:
    """An operator or an annotation: its first tensor, and the group that a functional one names."""
    values = node.inputs()
    elements, dtype = first_tensor(values, listed(node.types))
    group = None
    if _FUNCTIONAL.match(node.name):
        names = {one.name: one for one in table}
        texts = [value for value in values if isinstance(value, str) and value in names]
        group = names[texts[-1]] if texts else None
    size = MISSING if group is None else group.size
    return Call(node.record_id, node.name, "", group, size, in_elems=elements, dtype=dtype)


def first_tensor(values: Sequence[Any], types: Sequence[Any]) -> tuple[int, str]:
    """Elements and type of the first tensor of the inputs (of a list: of all its tensors)."""
    for value, kind in zip(values, types, strict=False):
        if not isinstance(kind, str) or "Tensor(" not in kind or not isinstance(value, list):
            continue
        tensors = value if kind.startswith("GenericList") else [value]
        counts = [t[3] for t in tensors if isinstance(t, list) and len(t) >= _TENSOR]
        if counts and all(_is_integer(n) and n >= 0 for n in counts):
            return sum(counts), kind.partition("Tensor(")[2].partition(")")[0]
    return MISSING, ""


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else MISSING


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
