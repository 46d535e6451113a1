"""Read a dump of the flight recorder, of any version, from a pickle or from JSON, into columns.

Columns hold numbers within int64, sizes, and types and stacks as ids. A hostile dump may share one
long list among many entries: what is made of a list is made once for it, and its text is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import structs

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.flight_recorder import is_dump
from ccltui.parsers.flight_recorder.dump import (
    COMPLETED,
    NONE,
    SCHEDULED,
    STARTED,
    UNKNOWN_STATE,
    FlightColumns,
    FlightDump,
    FlightGroup,
    Frame,
)
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import is_pickle
from ccltui.parsers.text.json_fields import read_text
from ccltui.parsers.text.plain_pickle import read_plain_pickle
from ccltui.parsers.window import MOST_RANKS

_MOST_TEXT: Final = 1 << 26
"""Characters of different names, sizes and types in a dump; 200,000 entries have 20 million."""
_LONGEST: Final = 4096
_SHOWN_SHAPES: Final = 16
_MOST_DIMENSIONS: Final = 64
_MOST_FRAMES: Final = 512
_HIGHEST: Final = (1 << 63) - 1
_BYTES: Final = {
    "bool": 1, "byte": 1, "char": 1, "short": 2, "int": 4, "long": 8, "uint16": 2, "uint32": 4,
    "uint64": 8, "half": 2, "bfloat16": 2, "float": 4, "double": 8, "complexhalf": 4,
    "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
"""Bytes of an element by the name that ATen gives its type."""


def integer(value: Any, missing: int = NONE) -> int:
    """Return a number, also one that JSON has as text; ``missing`` for everything else."""
    if type(value) is str and len(value) < 20 and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and -_HIGHEST <= value <= _HIGHEST else missing


def element_bytes(dtype: str) -> int | None:
    """Return the bytes of an element, None for a type that is not known."""
    name = dtype.lower()
    return 1 if name.startswith("float8") else _BYTES.get(name)


class Texts:
    """Different texts of a dump, and their ids. Raises TraceError beyond a limit."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._ids: dict[str, int] = {"": 0}
        self._length = 0

    def id(self, text: Any) -> int:
        """Return the id of a text; that of "" for what is none."""
        if type(text) is not str:
            return 0
        text = text[:_LONGEST]
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self._ids)
            self._length += len(text)
            if self._length > _MOST_TEXT:
                raise TraceError(
                    f"more than {_MOST_TEXT:,} characters of different names and sizes",
                    path=self._shown,
                )
        return found

    def all(self) -> tuple[str, ...]:
        """Return all texts in the order of their ids."""
        return tuple(self._ids)


class Sizes:
    """Shapes and types of tensors: elements, bytes, and texts."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._shapes: dict[int, tuple[str, int]] = {}
        self._lists: dict[int, tuple[int, int]] = {}
        self._types: dict[int, str] = {}
        self._bytes: dict[tuple[int, int], int] = {}

    def of(self, sizes: Any) -> tuple[int, int]:
        """Return the id of the text of a list of shapes, and the elements of all."""
        if type(sizes) not in (list, tuple):
            return 0, NONE
        found = self._lists.get(id(sizes))
        if found is None:
            shapes = [self._shape(one) for one in sizes]
            text = ", ".join([text for text, _ in shapes[:_SHOWN_SHAPES]])
            numbers = [number for _, number in shapes]
            total = sum(numbers) if min(numbers, default=0) >= 0 else NONE
            if len(shapes) > _SHOWN_SHAPES:
                text += f" and {len(shapes) - _SHOWN_SHAPES} more, {total:,} elements in all"
            found = self._texts.id(text), total if total <= _HIGHEST else NONE
            self._lists[id(sizes)] = found
        return found

    def _shape(self, shape: Any) -> tuple[str, int]:
        found = self._shapes.get(id(shape))
        if found is None:
            found = self._shapes[id(shape)] = _shape(shape)
        return found

    def bytes(self, sizes: Any, dtypes: Any) -> int:
        """Return the bytes of all tensors, -1 where a size or type is not known."""
        if type(sizes) not in (list, tuple) or type(dtypes) not in (list, tuple):
            return NONE
        if len(sizes) != len(dtypes):
            return NONE
        key = (id(sizes), id(dtypes))
        found = self._bytes.get(key)
        if found is None:
            found = self._bytes[key] = self._count(sizes, dtypes)
        return found

    def _count(self, sizes: Sequence[Any], dtypes: Sequence[Any]) -> int:
        total = 0
        for shape, dtype in zip(sizes, dtypes, strict=True):
            number = self._shape(shape)[1]
            each = element_bytes(dtype) if type(dtype) is str else None
            if each is None or number < 0:
                return NONE
            total += number * each
        return total if total <= _HIGHEST else NONE

    def types(self, dtypes: Any) -> str:
        """Return the types of a list as a text, one that all have once."""
        if type(dtypes) not in (list, tuple):
            return ""
        found = self._types.get(id(dtypes))
        if found is None:
            different = dict.fromkeys(one[:64] for one in dtypes if type(one) is str)
            found = self._types[id(dtypes)] = ", ".join(list(different)[:_SHOWN_SHAPES])
        return found


def _shape(shape: Any) -> tuple[str, int]:
    """Return a shape as a text, and its elements: -1 for what is no shape."""
    if type(shape) not in (list, tuple) or len(shape) > _MOST_DIMENSIONS:
        return "?", NONE
    number = 1
    for one in shape:
        if type(one) is not int or not 0 <= one <= _HIGHEST:
            return "?", NONE
        number *= one
    return str(list(shape)), number if number <= _HIGHEST else NONE


class Stacks:
    """Different stacks of a dump, and their indices; frames are shared."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._frame_of: dict[int, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {(): 0}
        self._stack_of: dict[int, int] = {}
        self._stack_of_text: dict[bytes, int] = {}
        self._stack_by_ids: dict[tuple[int, ...], int] = {}

    def index(self, frames: Any) -> int:
        """Return the index of a stack; 0 where there is none.

        Raises msgspec.DecodeError for the text of one that is no JSON.
        """
        if type(frames) is msgspec.Raw:
            return self._of_text(bytes(frames))
        if type(frames) is not list:
            return 0
        found = self._stack_of.get(id(frames))
        if found is None:
            # Pickles share frames, not lists of them: equal stacks are told by identity in 1 us.
            frames_of = tuple(map(id, frames[:_MOST_FRAMES]))
            found = self._stack_by_ids.get(frames_of)
            if found is None:
                key = tuple([self._frame(one) for one in frames[:_MOST_FRAMES]])
                found = self._stacks.setdefault(key, len(self._stacks))
                self._stack_by_ids[frames_of] = found
            self._stack_of[id(frames)] = found
        return found

    def _of_text(self, text: bytes) -> int:
        found = self._stack_of_text.get(text)
        if found is None:
            value = msgspec.json.decode(text)
            frames = value[:_MOST_FRAMES] if type(value) is list else []
            key = tuple([self._added(one) for one in frames])
            found = self._stacks.setdefault(key, len(self._stacks))
            self._stack_of_text[text] = found
        return found

    def _frame(self, frame: Any) -> int:
        found = self._frame_of.get(id(frame))
        if found is None:
            found = self._frame_of[id(frame)] = self._added(frame)
        return found

    def _added(self, frame: Any) -> int:
        """Return the number of a frame, which is added if it is new."""
        made = Frame("", "", NONE)
        if isinstance(frame, dict):
            name, file = frame.get("name"), frame.get("filename")
            made = Frame(
                name[:_LONGEST] if type(name) is str else "",
                file[:_LONGEST] if type(file) is str else "",
                integer(frame.get("line")),
            )
        return self._frames.setdefault(made, len(self._frames))

    def all(self) -> tuple[tuple[Frame, ...], ...]:
        """Return all stacks in the order of their indices."""
        frames = list(self._frames)
        return tuple(tuple(frames[one] for one in key) for key in self._stacks)


MOST_ENTRIES: Final = 200_000
_NEWEST_FORM: Final = 2
"""Highest major version whose fields are known; another may mean something else by them."""
_NAME: Final = re.compile(r"(\w{1,32}):(\w{1,128})(?: (\d{1,9})(?:->|<-)(\d{1,9}))?")
_LAST_DIGITS: Final = re.compile(r"(\d{1,6})\D*$")
_STATES: Final = {"scheduled": SCHEDULED, "started": STARTED, "completed": COMPLETED}
_DEFAULT: Final = "default_pg"
_INT32: Final = (
    *("group", "operation", "backend", "own", "peer", "sizes_in", "sizes_out", "dtypes"),
    *("thread", "stack"),
)
_FLAGS: Final = ("retired", "is_p2p", "is_closing")


def read_flight_dump(path: Path, *, shown: str, rank: int | None = None) -> FlightDump:
    """Return what one dump holds; nothing of it is run.

    Args:
        path: The file to open.
        shown: Its path in messages.
        rank: The rank that its name states; without one the last digits of the name are taken.

    Raises:
        TraceError: It cannot be read, is no dump, or of an unknown form; with the byte if known.
    """
    data = read_text(path, shown)
    notes: tuple[Note, ...] = ()
    if is_pickle(data):
        read = read_plain_pickle(data, shown=shown)
        value, notes = read.value, read.notes
        if read.cut and not is_dump(value):
            raise TraceError(notes[0].message, path=shown, offset=notes[0].offset)
    else:
        value = _json(data, shown)
    if not is_dump(value):
        raise TraceError("no dump of a flight recorder: no version with groups or entries",
                         path=shown)  # fmt: skip
    named = _last_number(shown) if rank is None else rank
    modified_ns = path.stat().st_mtime_ns
    try:
        return dump_of(value, shown=shown, named=named, modified_ns=modified_ns, notes=notes)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"not valid JSON: {error}", path=shown) from error


_FIELDS: Final = (
    *("profiling_name", "pg_id", "process_group", "record_id", "op_id", "collective_seq_id"),
    *("seq_id", "p2p_seq_id", "state", "retired", "is_p2p", "duration_ms", "thread_name"),
    *("input_sizes", "output_sizes", "input_dtypes", "output_dtypes"),
    *("time_created_ns", "time_created_us"),
    *("time_discovered_started_ns", "time_discovered_completed_ns"),
)
"""What is read of an entry, beside its stack."""
_Entry: Final = msgspec.defstruct(
    "_Entry",
    [
        *((name, Any, msgspec.UNSET) for name in _FIELDS),
        ("frames", msgspec.Raw, msgspec.UNSET),
    ],
    gc=False,
)


def _json(data: bytes, shown: str) -> Any:
    """Return the value of a dump in JSON; stacks of entries stay text, as `Stacks` takes them.

    A stack of 30 frames is 30 objects, and most stacks of a dump are equal: built they take three
    quarters of the time.
    """
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        value = {name: msgspec.json.decode(raw) for name, raw in fields.items() if name != _ENTRIES}
        if _ENTRIES in fields:
            value[_ENTRIES] = [_fields(one) for one in _ENTRIES_DECODER.decode(fields[_ENTRIES])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _any_json(data, shown)
    return value


def _fields(entry: Any) -> dict[str, Any]:
    return {name: one for name, one in structs.asdict(entry).items() if one is not msgspec.UNSET}


_ENTRIES: Final = "entries"
_ENTRIES_DECODER: Final = msgspec.json.Decoder(list[_Entry])  # type: ignore[valid-type]


def _any_json(data: bytes, shown: str) -> Any:
    """Return the value of any JSON: of another form than a dump, or damaged."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"not valid JSON: {error}", path=shown) from error


def _last_number(shown: str) -> int | None:
    digits = _LAST_DIGITS.search(shown.rpartition("/")[2].partition(".")[0])
    return None if digits is None else int(digits[1])


def dump_of(
    value: Any,
    *,
    shown: str,
    named: int | None,
    modified_ns: int = 0,
    notes: Sequence[Note] = (),
) -> FlightDump:
    """Return the dump that a value is. Raises TraceError for a form that is not known."""
    top: Mapping[Any, Any] = value if isinstance(value, Mapping) else {"entries": value}
    version = top.get("version")
    version = version if isinstance(version, str) else ""
    if version and int(version.split(".")[0]) > _NEWEST_FORM:
        raise TraceError(f"version {version} of the flight recorder is not known", path=shown)
    found = top.get("entries")
    listed = found if type(found) is list else []
    entries = [one for one in listed if isinstance(one, Mapping) and "profiling_name" in one]
    said = list(notes)
    if len(entries) > MOST_ENTRIES:
        left_out = len(entries) - MOST_ENTRIES
        said.append(Note("many_entries", f"the oldest {left_out:,} entries are left out"))
        entries = entries[-MOST_ENTRIES:]
    groups = _Groups(top)
    rows = _Rows(groups, shown)
    columns = _columns([rows.row(entry) for entry in entries])
    if groups.counts_all_together:
        said += _number_by_group(columns, len(groups.found))
    rank, why = _rank(named, groups.found, columns)
    said += [Note("unknown_rank", why)] if why else []
    return FlightDump(
        path=shown,
        rank=rank,
        version=version,
        library=_text(top.get("comm_lib_version")) or _text(top.get("nccl_version")),
        groups=tuple(groups.with_status()),
        columns=columns,
        texts=rows.texts.all(),
        stacks=rows.stacks.all(),
        modified_ns=modified_ns,
        notes=tuple(said),
    )


def _text(value: Any) -> str:
    return value[:256] if isinstance(value, str) else ""


class _Groups:
    """Groups of a dump: those it lists, and those that only entries name."""

    def __init__(self, top: Mapping[Any, Any]) -> None:
        self.found: list[FlightGroup] = []
        self._index: dict[tuple[str, str] | int, int] = {}
        self._ids: dict[int, int] = {}  # index -> local id
        status = top.get("pg_status")
        self._status = status if isinstance(status, Mapping) else {}
        config = top.get("pg_config")
        for key, value in (config if isinstance(config, Mapping) else {}).items():
            self._add_listed(key, value)
        self._has_status = "pg_status" in top

    @property
    def counts_all_together(self) -> bool:
        """Whether collectives are numbered over all groups of the process, as in torchcomms.

        It has no status, and the name of a backend in place of the description of a group.
        """
        backends = ("nccl", "ncclx", "gloo", "rccl", "rcclx", "hccl", "xccl", "mccl", "mpi", "ucc")
        described = {one.description for one in self.found}
        return (
            self._has_status and not self._status and bool(described) and described <= {*backends}
        )

    def _add_listed(self, key: Any, value: Any) -> None:
        if isinstance(value, Mapping):
            ranks = _ranks(value.get("ranks"))
            name = _text(value.get("name")) or _text(key)
            if name or ranks:
                description = _text(value.get("desc"))
                self._index[name, description] = len(self.found)
                self.found.append(FlightGroup(name, description, ranks))
        elif isinstance(key, int) or (isinstance(key, str) and key.isdecimal()):
            number = integer(key)  # PyTorch 2.3
            self._ids[len(self.found)] = number
            self._index[number] = len(self.found)
            description = _DEFAULT if number == 0 else ""
            self.found.append(FlightGroup(str(number), description, _ranks(value)))

    def index(self, entry: Mapping[Any, Any]) -> int:
        """Return the index of the group of an entry, which is added if it is new."""
        local_id = integer(entry.get("pg_id"))
        stated = entry.get("process_group")
        key: tuple[str, str] | int = local_id
        if isinstance(stated, tuple | list) and len(stated) == 2:
            key = _text(stated[0]), _text(stated[1])
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.found)
            if isinstance(key, tuple):
                self.found.append(FlightGroup(*key, None))
            else:
                description = _DEFAULT if local_id == 0 else ""
                self.found.append(FlightGroup(str(local_id), description, None))
        if local_id >= 0:
            self._ids.setdefault(found, local_id)
        return found

    def with_status(self) -> list[FlightGroup]:
        """Return the groups with their local ids and the counters of these."""
        ids = self._all_ids()
        groups = []
        for index, group in enumerate(self.found):
            local_id = ids.get(index)
            said = self._status.get(str(local_id)) if local_id is not None else None
            said = said if isinstance(said, Mapping) else {}
            numbers = (
                _status_number(said, "last_enqueued_collective"),
                _status_number(said, "last_started_collective"),
                _status_number(said, "last_completed_collective"),
            )
            groups.append(FlightGroup(*group[:3], local_id, *numbers))
        return groups

    def _all_ids(self) -> dict[int, int]:
        """Return the local id by index.

        Groups without entries: names that are numbers are given in the order of the ids. That is
        used where it agrees with every entry and no id is left over.
        """
        ids = sorted(integer(key) for key in self._status)
        names = [(int(one.name), index) for index, one in enumerate(self.found)
                 if one.name.isdecimal() and len(one.name) < 10]  # fmt: skip
        if len(names) != len(self.found) or len(names) != len(ids):
            return self._ids
        supposed = {index: number for (_, index), number in zip(sorted(names), ids, strict=True)}
        agrees = all(supposed[index] == number for index, number in self._ids.items())
        return supposed if agrees else self._ids


def _status_number(said: Mapping[Any, Any], key: str) -> int | None:
    return integer(said[key]) if key in said else None


def _ranks(value: Any) -> tuple[int, ...] | None:
    """Return the ranks of a group, a list or the text of one; None where none are stated."""
    if isinstance(value, str):
        items: Sequence[Any] = value.strip("[] ").split(",") if len(value) < 1 << 24 else ()
        value = [one.strip() for one in items if one.strip()]
    if type(value) not in (list, tuple):
        return None
    ranks = tuple(integer(one) for one in value)
    return ranks if ranks and all(0 <= one < MOST_RANKS for one in ranks) else None


def _columns(rows: Sequence[tuple[Any, ...]]) -> FlightColumns:
    fields = FlightColumns.__struct_fields__
    taken: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays: dict[str, Any] = {
        name: np.array(values, _dtype(name)) for name, values in zip(fields, taken, strict=True)
    }
    return FlightColumns(**arrays)


def _dtype(name: str) -> type:
    if name in _INT32:
        return np.int32
    if name in _FLAGS:
        return np.bool_
    return {"state": np.int8, "duration_ms": np.float64}.get(name, np.int64)


class _Rows:
    """Entries as rows of `FlightColumns`."""

    def __init__(self, groups: _Groups, shown: str) -> None:
        self.texts = Texts(shown)
        self.stacks = Stacks()
        self._groups = groups
        self._sizes = Sizes(self.texts)
        self._names: dict[str, tuple[int, int, int, int, bool]] = {}

    def row(self, entry: Mapping[Any, Any]) -> tuple[Any, ...]:
        """Return the values of an entry in the order of `FlightColumns`."""
        get, texts, sizes = entry.get, self.texts, self._sizes
        backend, operation, own, peer, may_close = self._named(get("profiling_name"))
        ins, outs = get("input_sizes"), get("output_sizes")
        dtypes_in, dtypes_out = get("input_dtypes"), get("output_dtypes")
        text_in, num_in = sizes.of(ins)
        text_out, num_out = sizes.of(outs)
        created = integer(get("time_created_ns"), 0) or integer(get("time_created_us"), 0) * 1000
        return (
            self._groups.index(entry),
            integer(get("collective_seq_id", get("seq_id"))),
            integer(get("p2p_seq_id")),
            integer(get("op_id")),
            integer(get("record_id")),
            operation,
            backend,
            own,
            peer,
            _state(get("state")),
            get("retired") is True,
            get("is_p2p") is True or peer >= 0,
            may_close and not ins and not outs,
            created if 0 < created < 1 << 63 else NONE,
            _time(get("time_discovered_started_ns")),
            _time(get("time_discovered_completed_ns")),
            _duration(get("duration_ms")),
            num_in,
            num_out,
            sizes.bytes(ins, dtypes_in),
            sizes.bytes(outs, dtypes_out),
            text_in,
            text_out,
            texts.id(f"{sizes.types(dtypes_in)} -> {sizes.types(dtypes_out)}"),
            texts.id(get("thread_name")),
            self.stacks.index(get("frames")),
        )

    def _named(self, name: Any) -> tuple[int, int, int, int, bool]:
        """Return ids of backend and operation, the peers, and whether it may close a group."""
        name = name if isinstance(name, str) else ""
        found = self._names.get(name)
        if found is None:
            match = _NAME.fullmatch(name)
            if match is None:
                found = self.texts.id(""), self.texts.id(name), NONE, NONE, False
            else:
                backend, operation, own, peer = match.groups()
                numbers = (NONE, NONE) if own is None else (int(own), int(peer))
                ids = self.texts.id(backend), self.texts.id(operation)
                found = *ids, *numbers, operation.endswith("coalesced")
            self._names[name] = found
        return found


def _state(value: Any) -> int:
    return _STATES.get(value, UNKNOWN_STATE) if isinstance(value, str) else UNKNOWN_STATE


def _time(value: Any) -> int:
    return integer(value) or NONE  # JSON has 0 for a time that is not known


def _duration(value: Any) -> float:
    is_number = type(value) in (int, float) and 0 <= value < 1e12
    return float(value) if is_number else float("nan")


def _number_by_group(columns: FlightColumns, num_groups: int) -> list[Note]:
    """Number the collectives of each group from 1, where one counter is used for all groups."""
    if len(columns) and columns.record_id[0] > 0:
        columns.seq[:] = NONE
        return [Note("not_aligned", "the ring lost entries, and its collectives are numbered over "
                     "all groups: their number in the group is not known")]  # fmt: skip
    for group in range(num_groups):
        rows = columns.group == group
        columns.seq[rows] = np.arange(1, int(rows.sum()) + 1)
    return []


def _rank(
    named: int | None, groups: Sequence[FlightGroup], columns: FlightColumns
) -> tuple[int | None, str]:
    """Return the rank of a file and, where it is not known, why.

    It is in the name. The contents must agree: the rank is in every group whose members are stated,
    at the place that sends and receives name.
    """
    stated = {
        ranks[own]
        for group, own in {*zip(columns.group.tolist(), columns.own.tolist(), strict=True)}
        if own >= 0 and (ranks := groups[group].ranks) is not None and own < len(ranks)
    }
    if len(stated) > 1:
        return None, f"its sends and receives are of {len(stated)} ranks: its rank is not known"
    rank = next(iter(stated), None) if named is None or stated else named
    if named is not None and rank is not None and rank != named:
        return None, f"its name states rank {named}, its sends and receives rank {rank}"
    outside = [one for one in groups if one.ranks is not None and rank not in one.ranks]
    if rank is not None and outside:
        group = printable(outside[0].name)
        return None, f"its name states rank {rank}, which is no member of its group {group}"
    return (
        (rank, "") if rank is not None else (None, "neither its name nor its contents state a rank")
    )
