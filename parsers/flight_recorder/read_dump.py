"""Read a dump of the flight recorder, of any version, from a pickle or from JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

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
)
from ccltui.parsers.flight_recorder.entry_values import Sizes, Stacks, Texts, integer
from ccltui.parsers.names import printable
from ccltui.parsers.text.json_fields import read_text
from ccltui.parsers.text.plain_pickle import is_pickle, read_plain_pickle

MOST_ENTRIES: Final = 200_000
_MOST_RANKS: Final = 1 << 20
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
    return dump_of(value, shown=shown, named=named, modified_ns=modified_ns, notes=notes)


def _json(data: bytes, shown: str) -> Any:
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
    return ranks if ranks and all(0 <= one < _MOST_RANKS for one in ranks) else None


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
