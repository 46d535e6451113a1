"""Decoders for one event of a trace, ids of its texts, and the compiled scanner where it was built.

Typed msgspec decoders read only the keys that become columns; msgspec skips the others without
building objects. Numbers with a decimal point are kept as text (``float_hook``), so that times stay
exact. Texts get ids while the file is read and are sorted at the end: final ids depend on the set
of texts alone.

The scanner is built at install time if there is a compiler. Without it, or with
``CCLTUI_ACCEL=0``, the general decoder gives the same columns.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import GROUPS, MISSING, Group, Strings
from ccltui.parsers.machine_limits import wants_compiled_code
from ccltui.parsers.text.json_text import lenient_json

Scalar = str | int | float | bool | None


class Args(msgspec.Struct, gc=False):
    """The members of ``args`` that are used; field names in quotes are the profiler's."""

    external_id: Any = msgspec.field(name="External id", default=None)
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    grid: msgspec.Raw = msgspec.Raw()
    blocks_per_sm: msgspec.Raw = msgspec.field(name="blocks per SM", default=msgspec.Raw())
    occupancy: msgspec.Raw = msgspec.field(name="est. achieved occupancy %", default=msgspec.Raw())
    graph_node: msgspec.Raw = msgspec.field(name="graph node id", default=msgspec.Raw())
    graph: msgspec.Raw = msgspec.field(name="graph id", default=msgspec.Raw())
    module: msgspec.Raw = msgspec.field(name="module_fqn", default=msgspec.Raw())
    input_dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    input_type: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    concrete_inputs: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())
    collective: Any = msgspec.field(name="Collective name", default=None)
    in_elems: Any = msgspec.field(name="In msg nelems", default=None)
    out_elems: Any = msgspec.field(name="Out msg nelems", default=None)
    dtype: Any = None
    group_name: Any = msgspec.field(name="Process Group Name", default=None)
    group_id: Any = msgspec.field(name="Process Group ID", default=None)
    group_description: Any = msgspec.field(name="Process Group Description", default=None)
    group_ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    group_size: Any = msgspec.field(name="Group size", default=None)
    in_split: Any = msgspec.field(name="In split size", default=None)
    out_split: Any = msgspec.field(name="Out split size", default=None)
    seq: Any = msgspec.field(name="Seq", default=None)
    record_id: Any = msgspec.field(name="Record function id", default=None)
    comms_id: Any = msgspec.field(name="Comms Id", default=None)
    src: Any = msgspec.field(name="Src Rank", default=None)
    dst: Any = msgspec.field(name="Dst Rank", default=None)
    is_async: Any = msgspec.field(name="Is asynchronized op", default=None)
    rank_start: Any = msgspec.field(name="Global rank start", default=None)
    rank_stride: Any = msgspec.field(name="Global rank stride", default=None)
    name: Any = None  # of a process or thread, in metadata events; of a kernel, by `mark_kernels`


class Event(msgspec.Struct, gc=False):
    """One element of ``traceEvents``. ``ts`` and ``dur`` are ints or texts, in microseconds."""

    ph: Scalar = None
    cat: Scalar = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


def text_of_float(text: str) -> str:
    """Return a number with a decimal point as it was written."""
    return text


batch_decoder = msgspec.json.Decoder(list[Event], float_hook=text_of_float)
event_decoder = msgspec.json.Decoder(Event, float_hook=text_of_float)
_args_decoder = msgspec.json.Decoder(Args)
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_MOST_NESTED = 300
"""Levels of lists and objects in an event that is decoded leniently.

Python's own limit counts the frames of the callers too, so that the two readers, which call from
different depths, would differ on events near it.
"""
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_lenient(text: bytes) -> Event | None:
    """Decode an event that the strict decoder rejects: NaN, trailing commas, bad UTF-8, types.

    Returns:
        The event, or None if it cannot be read.
    """
    if _is_too_deep(text):
        return None
    try:
        plain = lenient_json(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    fields = {key: plain.get(key) for key in Event.__struct_fields__}
    for key in ("ph", "cat", "name", "pid", "tid"):
        if isinstance(fields[key], list | dict):
            fields[key] = json.dumps(fields[key])
    args = fields.pop("args")
    event: Event = msgspec.convert(fields, Event)
    if isinstance(args, dict):
        try:
            # json, not msgspec: msgspec encodes no integer beyond 64 bits, and all other args
            # would be lost with it.
            event.args = _args_decoder.decode(json.dumps(args))
        except (TypeError, ValueError, RecursionError):
            event.args = None
    return event


def _is_too_deep(text: bytes) -> bool:
    """Return whether lists and objects are nested too deep; brackets in strings do not count."""
    if text.count(b"[") + text.count(b"{") <= _MOST_NESTED:
        return False
    depth = 0
    for token in _BRACKETS.finditer(text):
        byte = token[0][:1]
        if byte in b"[{":
            depth += 1
            if depth > _MOST_NESTED:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


_Key = TypeVar("_Key")


class StringPool:
    """Ids of texts in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []

    def id_of(self, text: Scalar) -> int:
        """Return the id of ``text``, -1 for None; values of other types are converted to text."""
        if text is None:
            return MISSING
        if not isinstance(text, str):
            text = str(text)
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self._texts)
            self._texts.append(text)
        return found

    def text_of(self, text_id: int) -> str:
        """Return the text of an id."""
        return self._texts[text_id]

    def finish(self, columns: Iterable[npt.NDArray[np.integer[Any]]]) -> tuple[Strings, I32]:
        """Return the texts that ``columns`` of ids use, sorted, and the new id of each old one.

        Returns:
            The sorted texts, and an int32 array that maps old ids to new ones; index -1 maps to
            -1, and so do ids that no column uses.
        """
        used = np.zeros(len(self._texts) + 1, np.bool_)
        for column in columns:
            used[column] = True
        ids = {self._texts[index]: int(index) for index in np.flatnonzero(used[:-1])}
        texts, renumbered = in_order(ids, len(self._texts), key=str)
        return Strings.of(texts), renumbered


def in_order(
    ids: dict[_Key, int], count: int, key: Callable[[_Key], Any]
) -> tuple[list[_Key], I32]:
    """Sort keys and return them with the mapping from old ids to new ones.

    Args:
        ids: Old id of each key, below ``count``.
        count: Number of old ids.
        key: Sort key.

    Returns:
        The sorted keys, and an int32 array of ``count`` + 1 that maps old ids to new ones; -1 is
        mapped to -1.
    """
    ordered = sorted(ids, key=key)
    renumbered = np.full(count + 1, MISSING, np.int32)
    renumbered[[ids[item] for item in ordered]] = np.arange(len(ordered))
    return ordered, renumbered


_VERSION = 3
"""That of ``_scanner.pyx``: one compiled from older source numbers events anew at each scan."""


class Scanner(Protocol):
    """Interface of the compiled scanner; see ``_scanner.pyx``."""

    ended_inside: bool
    ordinal: int
    """Number of events since the last call of :meth:`take`."""

    def scan(self, text: bytes, start: int = 0) -> int:
        """Scan events from index ``start`` of ``text``; return the number of bytes consumed."""

    def take(self) -> dict[int, dict[str, Any]]:
        """Return the columns since the last call, by index of their group; ordinals begin again."""

    def take_spans(self) -> list[tuple[int, int, int]]:
        """Return (start, end, ordinal) of the events that the last scan left to the decoder.

        Positions count from where it started, ordinals from the last call of :meth:`take`.
        """

    def take_described(self) -> tuple[I32, I64, I64]:
        """Return the rows of collective arguments: three columns of one length.

        Returns:
            The index of each row's description, its sequence number (-2: the description has it),
            and the record id of its operator (empty if no event states one).
        """

    def take_counts(self) -> list[tuple[str, int, int]]:
        """Return (phase, category id, number) of all events kept or counted by the scanner."""


def compiled() -> bool:
    """Return whether the scanner was built, from the source as it is now."""
    return _module() is not None


def _module() -> Any:
    """Return the compiled module, None where there is none or it is out of date."""
    try:
        found = importlib.import_module("ccltui.parsers.kineto.scanner._scanner")
    except ImportError:
        return None
    return found if getattr(found, "VERSION", 1) == _VERSION else None


NODE: bytes = b'"graph node id"'


def reads_nodes() -> bool:
    """Return whether the compiled module reads nodes of graphs; one of before 0.3 does not."""
    return bool(getattr(_module(), "READS_NODES", False))


def new_scanner(
    pool: StringPool,
    tracks: dict[Any, int],
    group_of: Callable[[str | None], Group],
    input_kind: Callable[[str], int],
    describe: Callable[[str | None, bytes], int],
    *,
    launch: Callable[..., int],
) -> Scanner | None:
    """Return a scanner that shares ids with the general decoder; None if it is not in use.

    Args:
        pool: Ids of texts.
        tracks: Ids of tracks, by key.
        group_of: Column group of a category.
        input_kind: What the inputs of an event of this name describe; see ``call_inputs``.
        describe: Adds collective arguments given as JSON; returns their index.
        launch: Id of a launch by texts (`LaunchShapes.id_of`).
    """
    module = _module() if wants_compiled_code() else None
    if module is None:
        return None
    indices = {group: index for index, group in enumerate(GROUPS)}
    scanner: Scanner = module.Scanner(
        pool, tracks, lambda category: indices[group_of(category)], input_kind, describe, launch
    )
    return scanner
