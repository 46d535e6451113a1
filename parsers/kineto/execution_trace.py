"""Read execution traces of PyTorch: nodes, process groups and collectives, without times.

Nodes have two forms. Schema 1.0.1 writes a node flat; from 1.0.2-chakra on inputs and outputs are
objects and the rest is a list of attributes. A version that is not known is read by the form of its
nodes. Process groups are a list in one node, and what calls state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.columns import MISSING, Note, ProcessGroup
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.process_groups import groups_of_config
from ccltui.parsers.text.json_fields import read_text
from ccltui.parsers.text.json_text import lenient_json

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


class Node(Struct, frozen=True):
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


class Nodes(Struct, frozen=True):
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


PARAMS: Final = "record_param_comms"
_OPERATOR = re.compile(r"(?:c10d|_c10d_functional|_c10d_functional_autograd|c10d_functional)::")
_ANNOTATION = re.compile(r"(?:nccl|gloo|mpi|ucc|hccl|xccl):")
_FUNCTIONAL = re.compile(r"_?c10d_functional(?:_autograd)?::")
_TENSOR = 6
"""Numbers that stand for a tensor: id, storage, offset, elements, bytes of an element, device."""


class Call(Struct, frozen=True):
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


MAX_BYTES: Final = 1 << 30
_STEP: Final = re.compile(r"ProfilerStep(?: ?#(\d{1,18})|\*)")
_PRODUCTS: Final = re.compile(
    r"aten::(?:mm|addmm|bmm|baddbmm|_scaled_mm|_grouped_mm|_scaled_grouped_mm|_?convolution"
    r"|convolution_backward|_scaled_dot_product\w+|_flash_attention_\w+"
    r"|_efficient_attention_\w+)"
)


class Marked(Struct, frozen=True):
    """A step that the trace marks. Times are µs, -1 where the file has none (as most have)."""

    number: int
    record_id: int
    start_us: float
    dur_us: float


class Product(Struct, frozen=True):
    """An operator made of matrix products, with the shapes of its inputs (() is no tensor)."""

    record_id: int
    name: str
    shapes: tuple[Any, ...]
    values: tuple[Any, ...]


class ExecutionTrace(Struct, frozen=True):
    """Data that an execution trace adds to a Kineto trace of the same rank.

    ``names`` has the node of each record id. ``start_ms`` and ``finish_ms`` are of the observer,
    on a clock of its own.
    """

    path: str
    schema: str
    start_ms: int
    finish_ms: int
    names: dict[int, str]
    groups: tuple[ProcessGroup, ...]
    calls: tuple[Call, ...]
    steps: tuple[Marked, ...]
    products: tuple[Product, ...]
    notes: tuple[Note, ...] = ()


def read_execution_trace(path: Path, *, shown: str) -> ExecutionTrace:
    """Operators, collectives and groups of the file. Raises TraceError where it is none."""
    parsed = nodes_of(read_text(path, shown, MAX_BYTES), shown=shown)
    groups = groups_of(parsed.nodes)
    notes = []
    if not parsed.known:
        message = f"execution trace of schema {parsed.schema or 'unknown'}: read by its form"
        notes.append(Note("unknown_schema", message))
    if parsed.unread:
        notes.append(Note("malformed_node", "nodes without an id or a name", count=parsed.unread))
    return ExecutionTrace(
        path=shown,
        schema=parsed.schema,
        start_ms=parsed.start_ms,
        finish_ms=parsed.finish_ms,
        names={node.record_id: node.name for node in parsed.nodes if node.record_id > 0},
        groups=groups,
        calls=calls_of(parsed.nodes, groups),
        steps=_steps(parsed.nodes),
        products=tuple(
            Product(node.record_id, node.name, tuple(listed(node.shapes)), tuple(node.inputs()))
            for node in sorted(parsed.nodes, key=lambda node: node.record_id)
            if _PRODUCTS.fullmatch(node.name)
        ),
        notes=tuple(notes),
    )


def _steps(nodes: tuple[Node, ...]) -> tuple[Marked, ...]:
    found: dict[int, Marked] = {}
    for node in sorted(nodes, key=lambda node: node.record_id):
        match = _STEP.fullmatch(node.name)
        if match is not None:
            number = int(match[1]) if match[1] else len(found)
            found.setdefault(number, Marked(number, node.record_id, node.start_us, node.dur_us))
    return tuple(found.values())
