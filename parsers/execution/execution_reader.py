"""Read one execution trace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.columns import Note, ProcessGroup
from ccltui.parsers.execution.node_calls import Call, calls_of
from ccltui.parsers.execution.node_groups import groups_of
from ccltui.parsers.execution.nodes import Node, listed, nodes_of
from ccltui.parsers.text.side_json import read_text

MAX_BYTES: Final = 1 << 30
_STEP: Final = re.compile(r"ProfilerStep(?: ?#(\d{1,18})|\*)")
_PRODUCTS: Final = re.compile(
    r"aten::(?:mm|addmm|bmm|baddbmm|_scaled_mm|_grouped_mm|_scaled_grouped_mm|_?convolution"
    r"|convolution_backward|_scaled_dot_product\w+|_flash_attention_\w+"
    r"|_efficient_attention_\w+)"
)


@dataclass(frozen=True, slots=True)
class Marked:
    """A step that the trace marks. Times are µs, -1 where the file has none (as most have)."""

    number: int
    record_id: int
    start_us: float
    dur_us: float


@dataclass(frozen=True, slots=True)
class Product:
    """An operator made of matrix products, with the shapes of its inputs (() is no tensor)."""

    record_id: int
    name: str
    shapes: tuple[Any, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class ExecutionTrace:
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
        notes.append(Note("malformed_node", "nodes without id or name", count=parsed.unread))
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
