"""Build the table of collective arguments of one rank, and the call inputs that metrics need.

Of the recorded inputs of operators only those are kept that metrics need: FLOPs and bytes are
computed from those of matrix products, attention and convolutions, the tokens of a step from the
shapes of look-ups of embeddings; sizes, peers and splits of a collective from those of its
operator. Arguments of a call are copied to the communication kernels that it launched.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import MISSING, CollectiveArgs, Events, Group, ProcessGroup, Strings
from ccltui.parsers.communication_kernels import communication_kernel
from ccltui.parsers.kineto.process_groups import GroupTable
from ccltui.parsers.kineto.scanner.typed_event import DECODE_ERRORS, Args, text_of_float

if TYPE_CHECKING:
    import msgspec

    from ccltui.parsers.kineto.scanner.typed_event import Event, StringPool


_PRODUCT = re.compile(
    r"aten::(?:mm|addmm|_addmm_activation|bmm|baddbmm|_scaled_mm)"
    r"|aten::_scaled_dot_product_(?:flash|efficient|cudnn|fused)_attention\w*"
    r"|aten::embedding"
)
_WITH_VALUES: Final = frozenset(
    (
        *("aten::convolution", "aten::convolution_backward"),
        *("aten::addmm", "aten::_addmm_activation", "aten::baddbmm"),
    )
)
"""Operators whose other inputs count: stride and padding; the factor of what is added, if 0."""
MAX_SHAPES_BYTES: Final = 400  # bytes; a longer text is not the inputs of a product


def is_product(name: object) -> bool:
    """Return whether shapes and types of the inputs of an operator of this name are stored."""
    return isinstance(name, str) and (_PRODUCT.fullmatch(name) is not None or has_values(name))


def has_values(name: object) -> bool:
    """Return whether values of the inputs of an operator of this name are stored too."""
    return isinstance(name, str) and name in _WITH_VALUES


class ProductInputs:
    """Text ids of the inputs of such operators of a rank."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._known: dict[object, bool] = {}

    def ids_of(self, events: list[Event]) -> dict[str, list[int]]:
        """Return text ids of shapes, types and values of each event, by column; -1: not stored."""
        found: dict[str, list[int]] = {"shapes": [], "input_types": [], "input_values": []}
        for event in events:
            product = self._known.get(event.name)
            if product is None:
                product = self._known[event.name] = is_product(event.name)
            args = event.args if product else None
            shapes = MISSING if args is None else self._id_of(args.input_dims)
            stored = args is not None and shapes >= 0
            types = self._id_of(args.input_type) if args is not None and stored else MISSING
            values = MISSING
            if args is not None and stored and has_values(event.name):
                values = self._id_of(args.concrete_inputs)
            for column, value in zip(found.values(), (shapes, types, values), strict=True):
                column.append(value)
        return found

    def _id_of(self, raw: msgspec.Raw) -> int:
        text = bytes(raw)
        usable = 0 < len(text) <= MAX_SHAPES_BYTES and text.isascii()
        return self._strings.id_of(text.decode()) if usable else MISSING


PARAMS: Final = "record_param_comms"
POINT_TO_POINT: Final = re.compile(r"c10d::(send|recv)")
_COLLECTIVE_OPERATOR: Final = re.compile(
    r"(?:_c10d_functional|c10d|nccl|gloo|mpi|ucc|hccl):|record_param_comms"
)
_DIGITS: Final = 7  # most digits of a number of ranks
_MAX_U64: Final = (1 << 64) - 1
_DIGITS_U64: Final = 20  # most digits of a 64-bit number; Python raises on thousands of digits


def describes_collective(name: object) -> bool:
    """Return whether the inputs of an event of this name describe a collective."""
    return isinstance(name, str) and _COLLECTIVE_OPERATOR.match(name) is not None


def input_kind(name: str) -> int:
    """Return what the inputs of an event of this name describe.

    Returns:
        1 for a collective, 2 for a collective with its peer or splits, 3 for a matrix product,
        4 for one whose values count too, 0 for anything else.
    """
    if POINT_TO_POINT.match(name) is not None or name == PARAMS:
        return 2
    if describes_collective(name):
        return 1
    return 4 if has_values(name) else 3 if is_product(name) else 0


def decoded(raw: msgspec.Raw) -> Any:
    """Decode an argument; None if it was not recorded or cannot be read."""
    data = bytes(raw)
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def first_tensor(dims: Any, types: Any) -> tuple[int, str | None]:
    """Return the number of elements and the type of the first tensor input.

    Args:
        dims: "Input Dims": one shape per input.
        types: "Input type": one type name per input.

    Returns:
        Elements (of a tensor list the sum over its tensors; -1 if unknown) and the type, None
        for a tensor list, whose elements have no recorded type.
    """
    if not isinstance(dims, list) or not isinstance(types, list):
        return MISSING, None
    for shape, kind in zip(dims, types, strict=False):
        if kind == "TensorList" and isinstance(shape, list) and shape:
            counts = [_elements(tensor) for tensor in shape]
            return (MISSING if MISSING in counts else sum(counts)), None
        if isinstance(kind, str) and kind not in _NO_TENSOR:
            return _elements(shape), kind
    return MISSING, None


_NO_TENSOR = frozenset({"", "Scalar", "ScalarList", "TensorList", "None", "GenericList"})


def _elements(shape: Any) -> int:
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        return MISSING
    count = 1
    for size in shape:
        count *= size
    return count if 0 <= count < 1 << 62 else MISSING


def peer_of(inputs: Any) -> int:
    """Return the third input of c10d::send and c10d::recv_: the peer's rank in the group."""
    return count_of(inputs[2]) if isinstance(inputs, list) and len(inputs) > 2 else MISSING


def split_and_size(inputs: Any) -> tuple[int, tuple[str | None, str | None]]:
    """Return the group size and the splits from the inputs of ``record_param_comms``.

    Source: PyTorch's ``record_param_comms`` has the inputs tensors, sequence, group, rank,
    operation, splits in, splits out; then the size of the group, or since 2024 its first rank,
    the stride of its ranks and its size.

    Returns:
        The size, -1 if unknown; the texts of the splits in and out, None if unknown.
    """
    if not isinstance(inputs, list) or not all(isinstance(value, str) for value in inputs):
        return MISSING, (None, None)
    lists = [at for at, text in enumerate(inputs) if text.startswith("[") and text.endswith("]")]
    if len(lists) != 2 or lists[1] != lists[0] + 1:
        return MISSING, (None, None)
    first, last = inputs[lists[0]], inputs[lists[1]]
    rest = [text for text in inputs[lists[1] + 1 :] if text.isdecimal() and len(text) <= _DIGITS]
    size = int(rest[2]) if len(rest) >= 3 else int(rest[0]) if len(rest) == 1 else 0
    return size or MISSING, (first, last)


def count_of(value: object) -> int:
    """Return an integer of at least -1, given as number or text; -1 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 62:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return MISSING


def record_id(value: object) -> int:
    """Return the id of an operator in the execution trace; -1 for 0, which means no id."""
    return count_of(value) or MISSING


def unsigned(value: object) -> int:
    """Return an unsigned 64-bit integer, given as number or text; 0 for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS_U64:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= _MAX_U64 else 0


def scalar_text(value: object) -> str | None:
    """Return the text of a value, None for None."""
    return None if value is None else str(value)


def list_text(value: object) -> str | None:
    """Return split sizes as text; a JSON list is formatted as the profiler formats it."""
    if value is None or isinstance(value, str):
        return value or None
    return str(value)


_TEXT_COLUMNS: Final = ("op", "dtype", "in_split", "out_split")
_EMPTY: I64 = np.empty(0, np.int64)
_args_decoder = msgspec.json.Decoder(Args, float_hook=text_of_float)


class CollectiveRows:
    """Builder of the table of collective arguments of one rank.

    Rows come from decoded events, or from descriptions: texts of arguments that the compiled
    scanner found on many events, decoded once. Events with the same description differ only in
    sequence number and record id.
    """

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._rows: list[tuple[int, ...]] = []
        self._groups = GroupTable()
        self._is_collective: dict[object, bool] = {}
        self._descriptions: list[tuple[int, ...]] = []
        self._described: I32 = np.empty(0, np.int32)
        self._sequences: I64 = np.empty(0, np.int64)
        self._records: I64 = np.empty(0, np.int64)

    def rows_of(self, group: Group, events: list[Event]) -> list[int]:
        """Add rows for events; return the row of each, -1 without collective arguments."""
        rows = []
        for event in events:
            args = event.args
            if args is None:
                rows.append(MISSING)
            elif args.collective is not None or args.in_elems is not None:
                rows.append(self._add(self._from_arguments(args)))
            elif group != "gpu" and self._describes_collective(event.name):
                rows.append(self._add(self._from_inputs(str(event.name), args)))
            else:
                rows.append(MISSING)
        return rows

    def describe(self, name: str | None, members: bytes) -> int:
        """Add a description and return its index, -2 where it cannot be read.

        Args:
            name: The operator whose recorded inputs describe the collective; None to use the
                arguments that the profiler wrote about the collective itself.
            members: The members of ``args`` as JSON text, without braces.
        """
        try:
            args = _args_decoder.decode(b"{%b}" % members)
        except DECODE_ERRORS:
            return -2
        row = self._from_arguments(args) if name is None else self._from_inputs(name, args)
        self._descriptions.append(row)
        return len(self._descriptions) - 1

    def add_described(self, described: I32, sequences: I64, records: I64) -> None:
        """Add the rows of the compiled scanner. An event refers to row ``k`` of them by -2 - k.

        Args:
            described: Index of each row's description, as returned by ``describe``.
            sequences: Sequence numbers; -2 means the number in the description.
            records: Record ids of operators; empty where no event states one.
        """
        self._described, self._sequences, self._records = described, sequences, records

    def _describes_collective(self, name: object) -> bool:
        known = self._is_collective.get(name)
        if known is None:
            known = self._is_collective[name] = describes_collective(name)
        return known

    def _add(self, row: tuple[int, ...]) -> int:
        self._rows.append(row)
        return len(self._rows) - 1

    def _from_arguments(self, args: Args) -> tuple[int, ...]:
        """Return a row from the arguments that the profiler attaches to collectives.

        Source: PyTorch from about 2.3.
        """
        text_id = self._strings.id_of
        return (
            text_id(scalar_text(args.collective)),
            count_of(args.in_elems),
            count_of(args.out_elems),
            text_id(scalar_text(args.dtype)),
            self._groups.id_of(
                args.group_name if args.group_name is not None else args.group_id,
                args.group_description,
                args.group_ranks,
                size=args.group_size,
                start=args.rank_start,
                stride=args.rank_stride,
            ),
            count_of(args.group_size),
            count_of(args.seq),
            unsigned(args.comms_id),
            count_of(args.src),
            count_of(args.dst),
            text_id(list_text(args.in_split)),
            text_id(list_text(args.out_split)),
            int(bool(args.is_async)) if args.is_async is not None else MISSING,
            record_id(args.record_id),
        )

    def _from_inputs(self, name: str, args: Args) -> tuple[int, ...]:
        """Return a row with sizes from tensor inputs, where nothing better was recorded."""
        elements, dtype = first_tensor(decoded(args.input_dims), decoded(args.input_type))
        peers = {"src": MISSING, "dst": MISSING}
        direction = POINT_TO_POINT.match(name)
        if direction is not None:
            peer = peer_of(decoded(args.concrete_inputs))
            peers["dst" if direction[1] == "send" else "src"] = peer
        size, splits = MISSING, (MISSING, MISSING)
        if name == PARAMS:
            size, texts = split_and_size(decoded(args.concrete_inputs))
            splits = (self._strings.id_of(texts[0]), self._strings.id_of(texts[1]))
        return (
            MISSING,
            elements,
            MISSING,
            self._strings.id_of(dtype),
            MISSING,
            size,
            MISSING,
            0,
            peers["src"],
            peers["dst"],
            *splits,
            MISSING,
            record_id(args.record_id),
        )

    def text_ids(self) -> I32:
        """Return the ids of all texts in the rows so far, including -1."""
        indices = [
            index for index, (name, _) in enumerate(CollectiveArgs.COLUMNS) if name in _TEXT_COLUMNS
        ]
        rows = itertools.chain(self._rows, self._descriptions)
        return np.fromiter((row[index] for row in rows for index in indices), np.int32)

    def finish(
        self,
        events: dict[Group, Events],
        text_ids: I32,
        table: tuple[ProcessGroup, ...],
    ) -> tuple[CollectiveArgs, tuple[ProcessGroup, ...]]:
        """Return the rows in their final order, and the groups that their ``group`` indexes.

        Rows are ordered by the events that refer to them, groups by their first row. Columns
        with one value are read-only views of that value.

        Args:
            events: Events by group; their ``args`` are changed in place to final rows.
            text_ids: New id of each old text id.
            table: The process groups of ``pg_config``.
        """
        order = self._renumber(events)
        every = [*self._rows, *self._descriptions]
        tables: dict[str, npt.NDArray[Any]] = {
            name: np.fromiter((row[index] for row in every), dtype, len(every))
            for index, (name, dtype) in enumerate(CollectiveArgs.COLUMNS)
        }
        # Columns that differ from row to row first: their inputs are then freed.
        final: dict[str, Any] = {"seq": self._sequence_numbers(tables.pop("seq"), order)}
        if len(self._records):
            own = tables.pop("record_id")[: len(self._rows)]
            final["record_id"], self._records = _concatenated(own, self._records)[order], _EMPTY
        of_row = np.arange(len(self._rows), dtype=np.int32)
        source_rows = _concatenated(of_row, self._described + np.int32(len(of_row)))[order]
        del order
        for name in _TEXT_COLUMNS:
            tables[name] = text_ids[tables[name]]
        tables["group"], groups = self._groups.finish(tables["group"], source_rows, table)
        used = np.zeros(len(every), np.bool_)
        used[source_rows] = True
        for name, values in tables.items():
            same = _constant_value(values[used])
            final[name] = (
                values[source_rows] if same is None else np.broadcast_to(same, len(source_rows))
            )
        return CollectiveArgs(**final), groups

    def _sequence_numbers(self, stated: I64, order: I32) -> I64:
        """Return sequence numbers by final row.

        Each is the scanner's number, else that of the row or description.
        """
        own, described = stated[: len(self._rows)], stated[len(self._rows) :]
        is_unset = self._sequences == -2
        self._sequences[is_unset] = described[self._described[is_unset]]
        numbers, self._sequences = _concatenated(own, self._sequences), _EMPTY
        return numbers[order]

    def _renumber(self, events: dict[Group, Events]) -> I32:
        """Replace ``args`` of events by final rows; return the old row of each final row."""
        count = len(self._rows) + len(self._described)
        for column in events.values():
            if column.args.flags.writeable:
                scanned = column.args < MISSING
                column.args[scanned] = len(self._rows) - 2 - column.args[scanned]
        referred = [column.args[column.args >= 0] for column in events.values()]
        order = np.concatenate([*referred, np.empty(0, np.int32)])
        renumbered = np.full(count + 1, MISSING, np.int32)
        renumbered[order] = np.arange(len(order), dtype=np.int32)
        for column in events.values():
            if column.args.flags.writeable:
                column.args[:] = renumbered[column.args]
        return order


def _concatenated(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate((one, other)) if len(one) else other


def _constant_value(values: npt.NDArray[Any]) -> Any:
    """Return the value that all values have, None where they differ or there are none.

    A column of one value is stored as a view of it and takes no memory.
    """
    return values[0] if len(values) and (values == values[0]).all() else None


_COPY_BETWEEN_DEVICES: Final = re.compile(r"memcpy (?:ptop|dtod|peer)", re.IGNORECASE)
_WAIT: Final = "wait"  # name in record_param_comms of a synchronisation, which is no collective


def join_kernels(events: dict[Group, Events], args: CollectiveArgs, strings: Strings) -> int:
    """Fill missing arguments of communication kernels from the calls that launched them.

    The call is found by External id (the operator that was running), else it is the innermost
    call that encloses the launch on its thread. ``events["gpu"].args`` is changed in place.

    Returns:
        The number of kernels that were filled.
    """
    gpu = events.get("gpu")
    if gpu is None or not len(args):
        return 0
    calls = _calls_of(events, args, strings)
    unresolved = _unresolved(gpu, strings, _is_communication)
    _join(gpu, unresolved, calls, events.get("runtime"))
    copies = _unresolved(gpu, strings, _is_copy_between_devices)
    if len(copies):
        _join_copies(gpu, copies, calls, events.get("runtime"), args)
    unresolved = np.concatenate((unresolved, copies))
    return int(np.count_nonzero(gpu.args[unresolved] != MISSING))


def _is_communication(name: str) -> bool:
    return communication_kernel(name) is not None


def _is_copy_between_devices(name: str) -> bool:
    return _COPY_BETWEEN_DEVICES.match(name) is not None


def _unresolved(gpu: Events, strings: Strings, is_meant: Callable[[str], bool]) -> I64:
    """Return the rows without arguments whose name is meant."""
    used = np.flatnonzero(np.bincount(gpu.name[gpu.name >= 0], minlength=1))
    chosen = np.zeros(len(strings) + 1, np.bool_)  # the last entry serves the id -1
    chosen[[i for i in used.tolist() if i < len(strings) and is_meant(strings[i])]] = True
    return np.flatnonzero((gpu.args == MISSING) & chosen[gpu.name])


def _calls_of(
    events: dict[Group, Events], args: CollectiveArgs, strings: Strings
) -> tuple[Events, Events]:
    """Return operators and annotations that have arguments of a collective, without waits."""
    wait = strings.find(_WAIT)
    waits = args.op == wait if wait >= 0 else np.zeros(len(args), np.bool_)
    return _calls(events.get("cpu_ops"), waits), _calls(events.get("annotations"), waits)


def _join(gpu: Events, rows: I64, calls: tuple[Events, Events], launches: Events | None) -> None:
    """Fill the arguments of rows, from operators first, by External id before launches."""
    for call in calls:
        _join_by_external_id(gpu, rows, call)
    if launches is not None:
        for call in calls:
            _join_by_launch(gpu, rows, launches, call)


def _join_copies(
    gpu: Events,
    copies: I64,
    calls: tuple[Events, Events],
    launches: Events | None,
    args: CollectiveArgs,
) -> None:
    """Fill the arguments of copies that execute a collective in place of a kernel.

    NCCL's copy engine, asynchronous tensor parallelism and Userbuffers move data by copies between
    devices on streams of their own. Copies inside a call that also has a kernel only prepare its
    buffers, and so does a copy on a stream of other work; in a group of one rank a copy moves
    nothing to another device.
    """
    is_resolved = gpu.args != MISSING
    with_kernel = np.zeros(len(args) + 1, np.bool_)
    with_kernel[gpu.args[is_resolved]] = True
    foreign = np.ones(len(gpu), np.bool_)
    foreign[copies] = False
    busy = np.zeros(int(gpu.track.max(initial=0)) + 2, np.bool_)
    busy[gpu.track[foreign & ~is_resolved]] = True
    copies = copies[~busy[gpu.track[copies]]]
    _join(gpu, copies, calls, launches)
    found = gpu.args[copies]
    alone = np.append(args.group_size, MISSING)[found] == 1
    gpu.args[copies[with_kernel[found] | alone]] = MISSING


def _calls(events: Events | None, waits: Bool) -> Events:
    """Return the events that have arguments of a collective, without waits."""
    if events is None:
        return Events.empty()
    described = events.args >= 0
    described[described] = ~waits[events.args[described]]
    return events.take(described)


def _join_by_external_id(gpu: Events, unresolved: I64, calls: Events) -> None:
    # Old files repeat the correlation id of a kernel as its External id, which then names no
    # operator.
    rows = unresolved[
        (gpu.args[unresolved] == MISSING)
        & (gpu.external_id[unresolved] != MISSING)
        & (gpu.external_id[unresolved] != gpu.correlation[unresolved])
    ]
    usable = np.flatnonzero(calls.external_id != MISSING)
    if not len(usable) or not len(rows):
        return
    order = usable[np.argsort(calls.external_id[usable], kind="stable")]
    ids = calls.external_id[order]
    place = np.minimum(np.searchsorted(ids, gpu.external_id[rows]), len(ids) - 1)
    hit = ids[place] == gpu.external_id[rows]
    gpu.args[rows[hit]] = calls.args[order[place[hit]]]


def _join_by_launch(gpu: Events, unresolved: I64, launches: Events, calls: Events) -> None:
    rows = unresolved[(gpu.args[unresolved] == MISSING) & (gpu.correlation[unresolved] != MISSING)]
    if not len(rows) or not len(calls) or not len(launches):
        return
    order = np.argsort(launches.correlation, kind="stable")
    ids = launches.correlation[order]
    place = np.minimum(np.searchsorted(ids, gpu.correlation[rows]), len(ids) - 1)
    found = ids[place] == gpu.correlation[rows]
    rows, launch = rows[found], order[place[found]]
    for track in np.unique(launches.track[launch]):
        on_track = launches.track[launch] == track
        inner = calls.take(calls.track == track)
        call = _innermost(inner, launches.start_ns[launch[on_track]])
        known = call >= 0
        gpu.args[rows[on_track][known]] = inner.args[call[known]]


def _innermost(calls: Events, times: I64) -> I64:
    """Return the row of the latest call before each time, -1 if it does not enclose the time."""
    if not len(calls):
        return np.full(len(times), MISSING)
    latest = np.searchsorted(calls.start_ns, times, side="right") - 1
    encloses = (latest >= 0) & (calls.end_ns[np.maximum(latest, 0)] >= times)
    return np.where(encloses, latest, MISSING)
