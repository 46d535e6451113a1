"""The table of what the profiler wrote about collectives: rows from events."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import MISSING, CollectiveArgs, Events, Group, ProcessGroup
from ccltui.parsers.kineto.json_text.typed_event import DECODE_ERRORS, Args, text_of_float
from ccltui.parsers.kineto.tables.call_inputs import (
    PARAMS,
    POINT_TO_POINT,
    count_of,
    decoded,
    first_tensor,
    is_shaped,
    list_text,
    peer_of,
    record_id,
    scalar_text,
    split_and_size,
    unsigned,
)
from ccltui.parsers.kineto.tables.process_groups import GroupTable

if TYPE_CHECKING:
    from ccltui.parsers.kineto.json_text.typed_event import Event
    from ccltui.parsers.kineto.scanner.text_ids import StringPool

_TEXT_COLUMNS: Final = ("op", "dtype", "in_split", "out_split")
_NONE: I64 = np.empty(0, np.int64)
_args_decoder = msgspec.json.Decoder(Args, float_hook=text_of_float)


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
        """Sizes from the operator's tensor inputs, where nothing better was recorded."""
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
