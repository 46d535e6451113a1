"""What the profiler wrote about collectives: rows from events, and the join to kernels."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from parsers.columns import (
    I32,
    I64,
    MISSING,
    Bool,
    CollectiveArgs,
    Events,
    Group,
    ProcessGroup,
    Strings,
)
from parsers.kineto.event import DECODE_ERRORS, Args, text_of_float
from parsers.kineto.groups import GroupTable
from parsers.kineto.products import is_product

if TYPE_CHECKING:
    from parsers.kineto.event import Event
    from parsers.kineto.ids import StringPool

_SHAPED = re.compile(r"(?:_c10d_functional|c10d|nccl|gloo|mpi|ucc|hccl):|record_param_comms")
_POINT_TO_POINT = re.compile(r"c10d::(send|recv)")
_COMMUNICATION_KERNEL = re.compile(
    r"nccl|rccl|hccl|mscclpp|nvshmem|deep_ep|all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE
)
_TEXT_COLUMNS = ("op", "dtype", "in_split", "out_split")
_args_decoder = msgspec.json.Decoder(Args, float_hook=text_of_float)
_PARAMS = "record_param_comms"
_DIGITS = 7  # of a number of ranks
_WAIT = "wait"  # record_param_comms of a synchronisation: no collective of its own
_NONE: I64 = np.empty(0, np.int64)
_MAX_U64 = (1 << 64) - 1


def is_shaped(name: object) -> bool:
    """Whether inputs of an event of this name describe a collective."""
    return isinstance(name, str) and _SHAPED.match(name) is not None


def shape_of(name: str) -> int:
    """What inputs of an event of this name describe.

    1 a collective, 2 its peer or its splits too, 3 a matrix product, 0 nothing.
    """
    if _POINT_TO_POINT.match(name) is not None or name == _PARAMS:
        return 2
    return 1 if is_shaped(name) else 3 if is_product(name) else 0


class CollectiveRows:
    """Grows the table of collective arguments of one rank."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._rows: list[tuple[int, ...]] = []
        self._groups = GroupTable()
        self._shaped: dict[object, bool] = {}
        self._descriptions: list[tuple[int, ...]] = []
        self._described: I32 = np.empty(0, np.int32)
        self._sequences: I64 = np.empty(0, np.int64)
        self._records: I64 = np.empty(0, np.int64)

    def rows_of(self, group: Group, events: list[Event]) -> list[int]:
        """Row of every event, -1 where it says nothing about a collective."""
        rows = []
        for event in events:
            args = event.args
            if args is None:
                rows.append(MISSING)
            elif args.collective is not None or args.in_elems is not None:
                rows.append(self._add(self._stated(args)))
            elif group != "gpu" and self._is_shaped(event.name):
                rows.append(self._add(self._from_inputs(str(event.name), args)))
            else:
                rows.append(MISSING)
        return rows

    def describe(self, name: str | None, members: bytes) -> int:
        """Index of what ``members`` of args say, -2 where they cannot be read.

        With a ``name`` its inputs speak; without, what the profiler stated.
        """
        try:
            args = _args_decoder.decode(b"{%b}" % members)
        except DECODE_ERRORS:
            return -2
        row = self._stated(args) if name is None else self._from_inputs(name, args)
        self._descriptions.append(row)
        return len(self._descriptions) - 1

    def add_described(self, described: I32, sequences: I64, records: I64) -> None:
        """Rows that the compiled scanner saw: an index of ``describe`` and two numbers each.

        An event refers to row ``k`` of them by -2 - k. A sequence number of -2 is the
        description's own. ``records`` is empty where no event states one.
        """
        self._described, self._sequences, self._records = described, sequences, records

    def _is_shaped(self, name: object) -> bool:
        known = self._shaped.get(name)
        if known is None:
            known = self._shaped[name] = is_shaped(name)
        return known

    def _add(self, row: tuple[int, ...]) -> int:
        self._rows.append(row)
        return len(self._rows) - 1

    def _stated(self, args: Args) -> tuple[int, ...]:
        """The arguments that the profiler attached since about PyTorch 2.3."""
        text_id = self._strings.id_of
        return (
            text_id(_scalar_text(args.collective)),
            _count(args.in_elems),
            _count(args.out_elems),
            text_id(_scalar_text(args.dtype)),
            self._groups.id_of(
                args.group_name if args.group_name is not None else args.group_id,
                args.group_description,
                args.group_ranks,
                size=args.group_size,
                start=args.rank_start,
                stride=args.rank_stride,
            ),
            _count(args.group_size),
            _count(args.seq),
            _unsigned(args.comms_id),
            _count(args.src),
            _count(args.dst),
            text_id(_list_text(args.in_split)),
            text_id(_list_text(args.out_split)),
            int(bool(args.is_async)) if args.is_async is not None else MISSING,
            _record_id(args.record_id),
        )

    def _from_inputs(self, name: str, args: Args) -> tuple[int, ...]:
        """Sizes from the operator's tensor inputs, where nothing better was recorded."""
        elements, dtype = _first_tensor(_json(args.input_dims), _json(args.input_type))
        peers = {"src": MISSING, "dst": MISSING}
        direction = _POINT_TO_POINT.match(name)
        if direction is not None:
            peer = _peer(_json(args.concrete_inputs))
            peers["dst" if direction[1] == "send" else "src"] = peer
        size, splits = MISSING, (MISSING, MISSING)
        if name == _PARAMS:
            size, texts = _split_and_size(_json(args.concrete_inputs))
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
            _record_id(args.record_id),
        )

    def text_ids(self) -> I32:
        """Ids of all texts in the rows so far, -1 among them."""
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
        """The rows in their final order, and the groups that their ``group`` indexes.

        Rows are put in the order of the events that refer to them (``events[...].args`` is
        changed in place), groups in the order of their first row. Columns of one value are
        views of that value.
        """
        order = self._renumber(events)
        every = [*self._rows, *self._descriptions]
        tables = {
            name: np.fromiter((row[index] for row in every), dtype, len(every))
            for index, (name, dtype) in enumerate(CollectiveArgs.COLUMNS)
        }
        # What rows have of their own goes first: then that can be let go.
        final: dict[str, Any] = {"seq": self._sequence_numbers(tables.pop("seq"), order)}
        if len(self._records):
            own = tables.pop("record_id")[: len(self._rows)]
            final["record_id"], self._records = _joined(own, self._records)[order], _NONE
        of_row = np.arange(len(self._rows), dtype=np.int32)
        said = _joined(of_row, self._described + np.int32(len(of_row)))[order]
        del order
        for name in _TEXT_COLUMNS:
            tables[name] = text_ids[tables[name]]
        tables["group"], groups = self._groups.finish(tables["group"], said, table)
        used = np.zeros(len(every), np.bool_)
        used[said] = True
        for name, values in tables.items():
            same = _one_value(values[used])
            final[name] = values[said] if same is None else np.broadcast_to(same, len(said))
        return CollectiveArgs(**final), groups

    def _sequence_numbers(self, stated: I64, order: I32) -> I64:
        """By final row: the number that the scanner saw, else what the row or description says."""
        own, described = stated[: len(self._rows)], stated[len(self._rows) :]
        unsaid = self._sequences == -2
        self._sequences[unsaid] = described[self._described[unsaid]]
        numbers, self._sequences = _joined(own, self._sequences), _NONE
        return numbers[order]

    def _renumber(self, events: dict[Group, Events]) -> I32:
        """Which row each final one was; ``args`` of events are given their final rows."""
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


def _joined(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate((one, other)) if len(one) else other


def _one_value(values: npt.NDArray[Any]) -> Any:
    """What all values are, None where they differ or are none: one value takes no memory."""
    return values[0] if len(values) and (values == values[0]).all() else None


def join_kernels(events: dict[Group, Events], args: CollectiveArgs, strings: Strings) -> int:
    """Give communication kernels without arguments those of the call that launched them.

    First by External id (the operator that was running), else by the innermost call that
    encloses the launch on its thread. Changes ``events["gpu"].args`` in place and returns
    how many kernels were joined.
    """
    gpu = events.get("gpu")
    if gpu is None or not len(args):
        return 0
    talks = np.fromiter((_COMMUNICATION_KERNEL.search(text) is not None for text in strings), bool)
    bare = np.flatnonzero((gpu.args == MISSING) & (gpu.name >= 0) & talks[np.maximum(gpu.name, 0)])
    if not len(bare):
        return 0
    waits = (
        args.op == strings.find(_WAIT) if strings.find(_WAIT) >= 0 else np.zeros(len(args), bool)
    )
    calls = [
        _calls(events.get("annotations"), waits),
        _calls(events.get("cpu_ops"), waits),
    ]
    for call in calls[::-1]:
        _join_by_external_id(gpu, bare, call)
    launches = events.get("runtime")
    for call in calls[::-1]:
        if launches is not None:
            _join_by_launch(gpu, bare, launches, call)
    return int(np.count_nonzero(gpu.args[bare] != MISSING))


def _calls(events: Events | None, waits: Bool) -> Events:
    """Events that describe a collective; waits describe none."""
    if events is None:
        return Events.empty()
    described = events.args >= 0
    described[described] = ~waits[events.args[described]]
    return events.take(described)


def _join_by_external_id(gpu: Events, bare: I64, calls: Events) -> None:
    # Old files repeat the correlation id as External id of a kernel: that is no operator.
    rows = bare[
        (gpu.args[bare] == MISSING)
        & (gpu.external_id[bare] != MISSING)
        & (gpu.external_id[bare] != gpu.correlation[bare])
    ]
    usable = np.flatnonzero(calls.external_id != MISSING)
    if not len(usable) or not len(rows):
        return
    order = usable[np.argsort(calls.external_id[usable], kind="stable")]
    ids = calls.external_id[order]
    place = np.minimum(np.searchsorted(ids, gpu.external_id[rows]), len(ids) - 1)
    hit = ids[place] == gpu.external_id[rows]
    gpu.args[rows[hit]] = calls.args[order[place[hit]]]


def _join_by_launch(gpu: Events, bare: I64, launches: Events, calls: Events) -> None:
    rows = bare[(gpu.args[bare] == MISSING) & (gpu.correlation[bare] != MISSING)]
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
    """Row of the latest call that encloses each time, -1 where the latest does not."""
    if not len(calls):
        return np.full(len(times), MISSING)
    latest = np.searchsorted(calls.start_ns, times, side="right") - 1
    encloses = (latest >= 0) & (calls.end_ns[np.maximum(latest, 0)] >= times)
    return np.where(encloses, latest, MISSING)


def _json(raw: msgspec.Raw) -> Any:
    data = bytes(raw)
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _first_tensor(dims: Any, types: Any) -> tuple[int, str | None]:
    """Elements and type of the first tensor input (of a tensor list: of all its tensors)."""
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


def _peer(inputs: Any) -> int:
    """Third input of c10d::send and c10d::recv_: the peer's rank inside the group."""
    if isinstance(inputs, list) and len(inputs) > 2 and str(inputs[2]).isdecimal():
        return _count(int(inputs[2]))
    return MISSING


def _split_and_size(inputs: Any) -> tuple[int, tuple[str | None, str | None]]:
    """Ranks of the group, and splits in and out, of the inputs of a recorded call.

    Tensors, sequence, group, rank, operation, splits in, splits out; then the size of the group,
    or since 2024 its first rank, the distance of its ranks and its size.
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


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 62:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return MISSING


def _record_id(value: object) -> int:
    """The number of an operator in an execution trace; 0 stands for none."""
    return _count(value) or MISSING


def _unsigned(value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= _MAX_U64 else 0


def _scalar_text(value: object) -> str | None:
    return None if value is None else str(value)


def _list_text(value: object) -> str | None:
    """Split sizes as text; a real list is written the way the profiler writes it."""
    if value is None or isinstance(value, str):
        return value or None
    return str(value)
