"""Findings in few objects, however many ranks there are, and the release of what is not in use.

The process with the screen draws some dozens of ten thousand ranks at a time, and a pane reads the
details of a few metrics. The numbers of all of them as objects of Python took 45 KB a rank, most of
what a large job needed there. Here they are arrays of all ranks, and bytes; both come in a mapped
file.
"""

from __future__ import annotations

import contextlib
import pickle
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.result import Result
from ccltui.parsers.machine_limits import trim_heap
from ccltui.parsers.store.column_store import release
from ccltui.tui.engine import array_transfer

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

T = TypeVar("T", bound=Struct)
_MOST_MADE: Final = 256
"""Structs that are kept once they are made: more than a screen has rows, and 1 MB of lanes."""
_SMALL_BYTES: Final = 4096
"""Details below this stay as they are: frames read many, and together they are small."""


class _Column(Protocol):
    def __getitem__(self, row: int, /) -> Any: ...


class _Arrays(Struct, frozen=True):
    """One array of each row, one after the other."""

    values: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]  # [rows + 1], from 0

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self.values[self.ends[row] : self.ends[row + 1]]


class _Structs(Struct, frozen=True):
    """One struct of each row, by columns of its fields."""

    kind: type[Struct]
    fields: tuple[_Column, ...]

    def __getitem__(self, row: int) -> Struct:
        return self.kind(*[field[row] for field in self.fields])


def _column(items: Sequence[Any]) -> _Column:
    one = items[0]
    if isinstance(one, np.ndarray):
        ends = np.zeros(len(items) + 1, np.int64)
        np.cumsum([len(item) for item in items], out=ends[1:])
        return _Arrays(np.concatenate(items), ends)
    if isinstance(one, Struct):
        names = type(one).__struct_fields__
        fields = (_column([getattr(item, name) for item in items]) for name in names)
        return _Structs(type(one), tuple(fields))
    return tuple(items)


class StructTable(Mapping[str, T]):
    """Structs of one type by label, whose arrays are parts of one array for each field.

    A struct is made when it is asked for; those of the last requests are kept.
    """

    def __init__(self, labels: Iterable[str], column: _Column) -> None:
        """Take the label of each row, and its struct. Use `of`."""
        self._rows = {label: row for row, label in enumerate(labels)}
        self._column = column
        self._made: dict[str, T] = {}

    @classmethod
    def of(cls, structs: Mapping[str, T]) -> Mapping[str, T]:
        """Return a table of the same structs, in the same order."""
        if not structs or isinstance(structs, StructTable):
            return structs
        return cls(structs, _column(list(structs.values())))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what is made again."""
        return type(self), (tuple(self._rows), self._column)

    def __getitem__(self, label: str) -> T:
        """Return the struct of a label. Raises KeyError."""
        known = self._made.get(label)
        if known is None:
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            known = self._made[label] = self._column[self._rows[label]]
        return known

    def __iter__(self) -> Iterator[str]:
        """Iterate over the labels."""
        return iter(self._rows)

    def __contains__(self, label: object) -> bool:
        """Whether there is such a label; nothing is made."""
        return label in self._rows

    def __len__(self) -> int:
        """Number of labels."""
        return len(self._rows)


class _Bytes:
    """A pickled value, made by this program."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle as a buffer: a channel puts it into the file that is mapped."""
        return type(self), (pickle.PickleBuffer(self.data),)


class PackedDetails(Mapping[str, Any]):
    """Details of a result, the large ones as bytes: read when they are used.

    What was read is kept until `forget_details`.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take the values, some of them packed. Use `of`."""
        self._values = values
        self._read: dict[str, Any] = {}

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the same details, packed where they are large."""
        if isinstance(details, PackedDetails):
            return details
        values = {key: _packed_value(value) for key, value in details.items()}
        is_small = not any(isinstance(value, _Bytes) for value in values.values())
        return details if is_small else cls(values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what was read."""
        return type(self), (self._values,)

    def forget(self) -> None:
        """Release what was read."""
        self._read.clear()

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key. Raises KeyError."""
        value = self._values[key]
        if not isinstance(value, _Bytes):
            return value
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = pickle.loads(value.data)
            _read.add(self)
        return found  # of this request: another thread may forget it meanwhile

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._values)

    def __contains__(self, key: object) -> bool:
        """Whether there is such a key; nothing is read."""
        return key in self._values

    def __len__(self) -> int:
        """Number of keys."""
        return len(self._values)

    __hash__ = object.__hash__


def _packed_value(value: Any) -> Any:
    if not isinstance(value, Mapping | Sequence):
        return value
    data = pickle.dumps(value, protocol=5)
    return _Bytes(data) if len(data) >= _SMALL_BYTES else value


_read: Final[weakref.WeakSet[PackedDetails]] = weakref.WeakSet()


def forget_details() -> None:
    """Release the details of all results that were read; the next use reads them again."""
    with contextlib.suppress(KeyError):  # none is left; another thread may have taken the last
        while True:
            _read.pop().forget()


def packed(result: Result) -> Result:
    """Return a result whose details and inputs are packed where they are large."""
    details, inputs = PackedDetails.of(result.details), PackedDetails.of(result.inputs)
    if details is result.details and inputs is result.inputs:
        return result
    return replace(result, details=details, inputs=inputs)


def release_memory(job: Job, *, heap: bool) -> None:
    """Release the pages of mapped columns and arrays, and with ``heap`` what was freed."""
    for trace in job.ranks:
        release(trace)
    forget_details()
    array_transfer.release_pages()
    if heap:
        trim_heap()
