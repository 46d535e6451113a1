"""Logs of NCCL Inspector of a synthetic job of many ranks and hours, with known answers.

Ranks are on hosts of eight. Each second a rank takes part in nine collectives: six of the eight
ranks of its host (`tp`), two of the ranks with its place on all hosts (`dp`), one of all ranks
(`world`). Each dump of ten seconds writes them in the grammar of NCCL 2.30. Two things are planted:
a rank that arrives late in some hours, and a `dp` group whose link has a third of the others'
bandwidth.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct, structs

from ccltui.parsers.array_types import I64
from ccltui.parsers.ingest.worker_pool import Executor

START_US: Final = 1_780_000_000_000_000
_PER_HOST: Final = 8
_BLOCK_S: Final = 600
"""Seconds that are made at once: the arrivals of 64 ranks take less than a megabyte."""
_DUMP_S: Final = 10
_SECOND_US: Final = 1_000_000
_MIB: Final = 1 << 20


class LogSpec(Struct, frozen=True):
    """A job, and what is wrong with it.

    Attributes:
        ranks: A multiple of eight, at least 24: a slow group is told by two others.
        hours: Length of the recording.
        late_rank: Rank that arrives late at the collectives of its host and of all ranks.
        late_us: By how much, give or take a twentieth.
        late_hours: Hours in which it does.
        slow_group: Number of the `dp` group with a third of the bandwidth, from 0 to 7.
        seed: Of the random numbers.
    """

    ranks: int = 64
    hours: float = 24.0
    late_rank: int = 21
    late_us: int = 3000
    late_hours: tuple[float, float] = (5.0, 9.0)
    slow_group: int = 3
    seed: int = 0

    @property
    def seconds(self) -> int:
        """Length of the recording."""
        return round(self.hours * 3600)

    @property
    def num_records(self) -> int:
        """Lines in all files."""
        return self.ranks * self.seconds * sum(one.each_s for one in _KINDS)


class _Kind(Struct, frozen=True):
    group: str
    operation: str
    each_s: int
    size: int
    transfer_us: int


_KINDS: Final = (
    _Kind("tp", "AllReduce", 4, 32 * _MIB, 300),
    _Kind("tp", "AllGather", 2, 4 * _MIB, 200),
    _Kind("dp", "ReduceScatter", 1, 64 * _MIB, 5000),
    _Kind("dp", "AllGather", 1, 64 * _MIB, 5000),
    _Kind("world", "AllReduce", 1, 128 * _MIB, 2500),
)
_LINE: Final = (
    '{"header":{"id":"0x%s","comm_name":"%s","rank":%d,"n_ranks":%d,"nnodes":%d},"metadata":'
    '{"inspector_output_format_version":"v4.0","git_rev":"2.30.4-1-made","rec_mechanism":'
    '"nccl_profiler_interface","dump_timestamp_us":%%d,"hostname":"%s","pid":%d},"coll_perf":'
    '{"coll":"%s","coll_sn":%%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":%%d,'
    '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":%%.6f,"coll_busbw_gbs":%%.6f}}\n'
)


def write_inspector_logs(folder: Path, spec: LogSpec, *, workers: int = 1) -> dict[str, Any]:
    """Write the log of each rank, and return what is planted. Raises OSError."""
    if spec.ranks % _PER_HOST or spec.ranks < 3 * _PER_HOST:
        raise ValueError("the number of ranks is a multiple of 8, at least 24")
    folder.mkdir(parents=True, exist_ok=True)
    write = partial(_write_rank, folder, spec)
    if workers > 1:
        with Executor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(pool.map(write, range(spec.ranks)))  # the list raises what a process raised
    else:
        for rank in range(spec.ranks):
            write(rank)
    slow = [str(one) for one in range(spec.slow_group, spec.ranks, _PER_HOST)]
    truth = {**structs.asdict(spec), "records": spec.num_records, "slow_ranks": slow}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    return truth


def _write_rank(folder: Path, spec: LogSpec, rank: int) -> None:
    host = f"node-{rank // _PER_HOST:03d}"
    with (folder / f"{host}-pid{40_000 + rank}.log").open("w", encoding="ascii") as file:
        for begin in range(0, spec.seconds, _BLOCK_S):
            file.writelines(_lines(spec, rank, begin, min(begin + _BLOCK_S, spec.seconds)))


def _lines(spec: LogSpec, rank: int, begin: int, end: int) -> Iterator[str]:
    """Lines of some seconds, by dump, and in a dump by communicator and type."""
    made = [_of_kind(spec, rank, kind, begin, end) for kind in _KINDS]
    for first in range(0, end - begin, _DUMP_S):
        for kind, lines in zip(_KINDS, made, strict=True):
            yield from lines[first * kind.each_s : (first + _DUMP_S) * kind.each_s]


def _of_kind(spec: LogSpec, rank: int, kind: _Kind, begin: int, end: int) -> Sequence[str]:
    number, members = _group(spec, rank, kind)
    place, count = members.index(rank), (end - begin) * kind.each_s
    exec_us = _exec_us(spec, kind, number, members, range(begin, end))[:, place]
    factor = (len(members) - 1) / len(members) * (2 if kind.operation == "AllReduce" else 1)
    moved = kind.size * (1 if kind.operation == "AllReduce" else len(members))
    rates = moved / exec_us / 1e3
    seconds = begin + np.arange(count) // kind.each_s
    written = START_US + (seconds // _DUMP_S + 1) * _DUMP_S * _SECOND_US
    written += np.arange(count) % (_DUMP_S * kind.each_s) * 3  # the writer takes 3 us a line
    host, hosts = rank // _PER_HOST, len({one // _PER_HOST for one in members})
    ident = f"{0x6F3A91C27D0000 + 4096 * ('tp', 'dp', 'world').index(kind.group) + number:014x}"
    line = _LINE % (
        *(ident, kind.group, place, len(members), hosts, f"node-{host:03d}", 40_000 + rank),
        *(kind.operation, kind.size),
    )
    columns = (
        written.tolist(),
        range(begin * kind.each_s + 1, end * kind.each_s + 1),
        exec_us.tolist(),
        rates.tolist(),
        (rates * factor).tolist(),
    )
    return list(map(line.__mod__, zip(*columns, strict=True)))


def _group(spec: LogSpec, rank: int, kind: _Kind) -> tuple[int, range]:
    """Number of the group of a rank, and the ranks of the group."""
    if kind.group == "world":
        return 0, range(spec.ranks)
    if kind.group == "dp":
        return rank % _PER_HOST, range(rank % _PER_HOST, spec.ranks, _PER_HOST)
    host = rank // _PER_HOST
    return host, range(host * _PER_HOST, (host + 1) * _PER_HOST)


def _exec_us(spec: LogSpec, kind: _Kind, number: int, members: range, seconds: range) -> I64:
    """Execution times of all members, instances × members: every member makes the same."""
    key = (spec.seed, _KINDS.index(kind), number, seconds.start)
    rng = np.random.default_rng(key)
    count = len(seconds) * kind.each_s
    arrive = rng.integers(0, 40, (count, len(members)))
    if spec.late_rank in members and kind.group != "dp":
        hour = np.repeat(np.arange(seconds.start, seconds.stop), kind.each_s) / 3600
        is_late = (hour >= spec.late_hours[0]) & (hour < spec.late_hours[1])
        late = rng.integers(spec.late_us * 19 // 20, spec.late_us * 21 // 20 + 1, count)
        arrive[:, members.index(spec.late_rank)] += np.where(is_late, late, 0)
    slow = 3 if kind.group == "dp" and number == spec.slow_group else 1
    transfer = kind.transfer_us * slow + rng.integers(0, kind.transfer_us // 20, count)
    found: I64 = (arrive.max(axis=1) + transfer)[:, None] - arrive
    return found
