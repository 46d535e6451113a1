"""What a dump of the flight recorder holds: collectives of one process in columns, its groups."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import Note

Bools = npt.NDArray[np.bool_]
States = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float64]

UNKNOWN_STATE, SCHEDULED, STARTED, COMPLETED = -1, 0, 1, 2
NONE: Final = -1
"""In integer columns: the dump does not say."""


class Frame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str
    line: int


class FlightGroup(NamedTuple):
    """A process group as one dump states it.

    ``ranks`` are its members in the order of the group, None where they are not stated (gloo,
    PyTorch 2.2). The last numbers are of ``pg_status``: -1 means none ever, None not said.
    """

    name: str
    description: str
    ranks: tuple[int, ...] | None
    local_id: int | None = None
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None


class FlightColumns(Struct, frozen=True):
    """Entries of the ring, the oldest first; all arrays have one length.

    Attributes:
        group: Index into the groups of the dump.
        seq: Number of the collective in its group; of a P2P entry the stale number before it.
        p2p_seq: Number of the send or receive in its group, on this rank.
        op_id: Number of the operation in its group.
        record_id: Position in the ring over all groups, from 0.
        operation: Id of a text: "all_reduce", "send".
        backend: Id of a text: "nccl", "gloo".
        own: Index of the writer in the group where a P2P entry states it.
        peer: Index in the group of the other side of a P2P entry.
        state: One of the states above, as written.
        retired: Whether the watchdog let go of it.
        is_p2p: Whether it is a send or a receive.
        is_closing: Whether it closes a coalesced group of operations, whose state it carries.
        created_ns: When it was enqueued, on the clock of the host since the epoch.
        started_ns: When it was noticed that it runs, at the latest.
        completed_ns: When it was noticed that it is complete, at the latest.
        duration_ms: Time on the device, NaN where timing was off.
        num_in: Elements of all inputs.
        num_out: Elements of all outputs.
        bytes_in: Bytes of all inputs; -1 where a type is not known.
        bytes_out: Bytes of all outputs; -1 where a type is not known.
        sizes_in: Id of a text: "[4096, 1024]", several joined by ", ".
        sizes_out: The same of the outputs.
        dtypes: Id of a text: types of inputs, then those of outputs: "Float -> Float".
        thread: Id of the name of the thread.
        stack: Index into the stacks of the dump.
    """

    group: I32
    seq: I64
    p2p_seq: I64
    op_id: I64
    record_id: I64
    operation: I32
    backend: I32
    own: I32
    peer: I32
    state: States
    retired: Bools
    is_p2p: Bools
    is_closing: Bools
    created_ns: I64
    started_ns: I64
    completed_ns: I64
    duration_ms: Floats
    num_in: I64
    num_out: I64
    bytes_in: I64
    bytes_out: I64
    sizes_in: I32
    sizes_out: I32
    dtypes: I32
    thread: I32
    stack: I32

    def __len__(self) -> int:
        return len(self.group)


class FlightDump(Struct, frozen=True, dict=True):
    """One dump: the last collectives that one process enqueued.

    Attributes:
        path: For messages.
        rank: Rank of the process, None where it is not known, or name and contents disagree.
        version: Of the form, "" in PyTorch 2.2.
        library: Version of the communication library, "" where it is not said.
        groups: Groups of this process.
        columns: The entries.
        texts: What text columns point into.
        stacks: Stacks, the innermost frame first; the first is empty.
        modified_ns: When the file was changed last.
        notes: What is to be said about the file.
    """

    path: str
    rank: int | None
    version: str
    library: str
    groups: tuple[FlightGroup, ...]
    columns: FlightColumns
    texts: tuple[str, ...]
    stacks: tuple[tuple[Frame, ...], ...]
    modified_ns: int
    notes: tuple[Note, ...] = ()

    @property
    def num_overwritten(self) -> int | None:
        """Entries that the ring lost, None where it numbers none (PyTorch 2.2).

        A dump of active entries alone leaves out others: there it is how many came before.
        """
        ids = self.columns.record_id
        return None if not len(ids) or ids[0] < 0 else int(ids[0])

    @cached_property
    def has_finished_entries(self) -> bool:
        """Whether any entry is complete or retired: a dump may be of active entries alone."""
        return bool((self.columns.state == COMPLETED).any() or self.columns.retired.any())

    @property
    def has_stacks(self) -> bool:
        """Whether entries state where they were called."""
        return len(self.stacks) > 1

    @cached_property
    def backends(self) -> frozenset[str]:
        """Backends of its entries."""
        return frozenset(self.texts[one] for one in np.unique(self.columns.backend).tolist())

    @cached_property
    def has_timing(self) -> bool:
        """Whether any entry states its time on the device."""
        return bool(np.isfinite(self.columns.duration_ms).any())
