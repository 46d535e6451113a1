"""Read the nodes of an execution trace, which have two forms.

Schema 1.0.1 writes a node flat; from 1.0.2-chakra on inputs and outputs are objects and the
rest is a list of attributes. A version that is not known is read by the form of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.json_text.lenient_json import lenient_json

FLAT: Final = "1.0.1"
KNOWN: Final = (
    FLAT,
    "1.0.2-chakra.0.0.4",
    "1.0.3-chakra.0.0.4",
    "1.1.0-chakra.0.0.4",
    "1.1.1-chakra.0.0.4",
)
_NOTHING: Final = msgspec.Raw()
_INTEGERS: Final = frozenset(
    {
        "rf_id",
        "tid",
        "global_rank_start",
        "global_rank_stride",
        "pg_size",
        "group_size",
        "in_msg_nelems",
        "out_msg_nelems",
        "seq",
        "src_rank",
        "dst_rank",
    }
)


class _Arguments(msgspec.Struct, gc=False):
    values: msgspec.Raw = _NOTHING
    shapes: msgspec.Raw = _NOTHING
    types: msgspec.Raw = _NOTHING


class _Attribute(msgspec.Struct, gc=False):
    name: Any = None
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    """Members of both forms; those of the other stay empty."""

    id: Any = None
    name: Any = None
    ctrl_deps: Any = None
    inputs: msgspec.Raw = _NOTHING
    attrs: list[_Attribute] | None = None
    rf_id: Any = None
    tid: Any = None
    parent: Any = None
    input_shapes: msgspec.Raw = _NOTHING
    input_types: msgspec.Raw = _NOTHING
    ts: Any = None  # of files that were merged with a Kineto trace
    dur: Any = None


class _Document(msgspec.Struct):
    schema: Any = None
    start_ts: Any = None
    finish_ts: Any = None
    nodes: list[_Node] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node; -1 for a number that is absent. Arguments stay JSON text until they are asked for.

    ``record_id`` is the number that Kineto calls "Record function id". Operators get it when they
    begin, over all threads. ``dur_us`` and ``start_us`` are of files merged with Kineto's.
    """

    id: int
    name: str
    parent: int
    thread: int
    record_id: int
    values: bytes
    shapes: bytes
    types: bytes
    attributes: Mapping[str, object]
    start_us: float = -1
    dur_us: float = -1

    def inputs(self) -> list[Any]:
        """Values of the inputs, [] where they are not a list."""
        return listed(self.values)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a file, and what its head says."""

    schema: str
    known: bool  # a version that this reader was written for
    start_ms: int
    finish_ms: int
    nodes: tuple[Node, ...]
    unread: int  # nodes that have no name or no id


_decoder = msgspec.json.Decoder(_Document)
_arguments = msgspec.json.Decoder(_Arguments)


def nodes_of(text: bytes, *, shown: str) -> Nodes:
    """All nodes of an execution trace. Raises TraceError where it is none."""
    try:
        document = _document(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"no readable execution trace: {error}", path=shown) from error
    if document.nodes is None:
        raise TraceError("no execution trace: it has no nodes", path=shown)
    found = [_node(raw) for raw in document.nodes]
    nodes = tuple(node for node in found if node is not None)
    schema = document.schema if isinstance(document.schema, str) else ""
    return Nodes(
        schema=schema,
        known=schema in KNOWN,
        start_ms=whole(document.start_ts),
        finish_ms=whole(document.finish_ts),
        nodes=nodes,
        unread=len(found) - len(nodes),
    )


def _document(text: bytes) -> _Document:
    """The document; the values of operators may hold NaN, which strict JSON has not."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            plain = lenient_json(text)
        except ValueError:
            plain = None
        if plain is None:
            raise
    return _decoder.decode(msgspec.json.encode(plain))


def _node(raw: _Node) -> Node | None:
    number = whole(raw.id)
    if number < 0 or not isinstance(raw.name, str):
        return None
    attributes = {
        one.name: one.value for one in raw.attrs or () if isinstance(one.name, str) and one.name
    }
    if raw.attrs is None:
        inputs = _Arguments(raw.inputs, raw.input_shapes, raw.input_types)
    else:
        inputs = _decoded(raw.inputs)
    return Node(
        id=number,
        name=raw.name,
        parent=whole(raw.parent if raw.attrs is None else raw.ctrl_deps),
        thread=whole(raw.tid if raw.attrs is None else attributes.get("tid")),
        record_id=whole(raw.rf_id if raw.attrs is None else attributes.get("rf_id")),
        values=bytes(inputs.values),
        shapes=bytes(inputs.shapes),
        types=bytes(inputs.types),
        attributes={
            name: whole(value) if name in _INTEGERS else value for name, value in attributes.items()
        },
        start_us=_time(raw.ts),
        dur_us=_time(raw.dur),
    )


def _decoded(text: msgspec.Raw) -> _Arguments:
    try:
        return _arguments.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Arguments()


def listed(text: bytes) -> list[Any]:
    """A JSON list, [] for anything else."""
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def whole(value: object) -> int:
    """A whole number from 0, also as text; -1 for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    return -1


def _time(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return float(value)
    return -1
