"""Read the JSON of NCCL's RAS: reports of ``ncclras -f json``, and events of its monitor.

A report states the processes of every communicator, with the number of operations that each has
launched; those that do not answer are listed apart. The monitor prints an object for each event.
Both become a `RasReport`, as reports in text do. Ranks are those inside of their communicator.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.cluster.nccl_log import (
    RasCommunicator,
    RasDifference,
    RasPart,
    RasRank,
    RasReport,
    read_ras_text,
)
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.compression import TextChunks
from ccltui.parsers.text.json_fields import read_text
from ccltui.parsers.window import MOST_RANKS

_MOST_OBJECTS: Final = 100_000
_OF_ALL: Final = frozenset(
    {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}
    | {"AlltoAll", "AllToAll", "Gather", "Scatter", "AllGatherV"}
)
"""Operations that every rank of a communicator launches; sends and receives each has its own."""
_P2P: Final = ("SendRecv", "Send", "Recv")
_NO_ERROR: Final = (0, 7)
"""ncclSuccess, and ncclInProgress of communicators that do not block."""
_ERRORS: Final = {
    1: "unhandled CUDA error",
    2: "unhandled system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote error",
}
"""Names of ncclResult_t."""
_FLAGS: Final = (
    ("abort_flag", "ABORT"),
    ("destroy_flag", "DESTROY"),
    ("finalize_called", "FINALIZE"),
)
_LOST: Final = {
    "PEER_DEAD": "dead",
    "PEER_TIMEOUT_DEAD": "dead",
    "PEER_UNRESPONSIVE": "missing",
    "PEER_KEEPALIVE_TIMEOUT": "missing",
}
"""Events of the monitor after which a process does not answer, from NCCL's src/ras/rasnet.cc.

PEER_DEAD is of the group LIFECYCLE, the others of TRACE, which a client has to ask for. No word for
5 s is PEER_UNRESPONSIVE, for 20 s PEER_KEEPALIVE_TIMEOUT, for 60 s PEER_TIMEOUT_DEAD and PEER_DEAD.
"""
_BACK: Final = frozenset({"PEER_RECOVERED", "PEER_CONNECTED"})
"""Events after which a process answers again; one that is dead is not asked any more."""


def read_ras(path: Path, *, shown: str) -> tuple[RasReport, ...]:
    """Return every report of a file, in JSON or in text; () for events that lose no process.

    Raises:
        TraceError: It cannot be read, or no report is in it.
    """
    if next(iter(TextChunks(path)), b"").lstrip()[:1] != b"{":
        return read_ras_text(path, shown=shown)
    data = read_text(path, shown)
    reports, events = [], []
    for one in _objects(data.decode("utf-8", "replace"), shown):
        if isinstance(one.get("communicators"), list):
            reports.append(_report(one))
        elif "event" in one:
            events.append(one)
    lost = _lost(events)
    if not reports and not events:
        raise TraceError("no report of RAS in it", path=shown)
    return (*reports, *([] if lost is None else [lost]))


def _objects(text: str, shown: str) -> Iterator[Mapping[str, Any]]:
    """Yield JSON objects that follow one another; a last one that is cut off is left out."""
    decoder = json.JSONDecoder()
    at = 0
    for number in range(_MOST_OBJECTS):
        at = next((i for i in range(at, len(text)) if not text[i].isspace()), len(text))
        if at >= len(text):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if number:
                return
            raise TraceError(f"not valid JSON: {error}", path=shown) from error
        if isinstance(value, dict):
            yield value


def _report(document: Mapping[str, Any]) -> RasReport:
    listed = [one for one in document["communicators"] if isinstance(one, dict)]
    # The largest first: what it says of a process need not be said again.
    order = sorted(range(len(listed)), key=lambda index: (-_number(listed[index], "size"), index))
    said: set[tuple[str, int]] = set()
    made = [_communicator(listed[index], index, said) for index in order]
    ras = document.get("ras")
    return RasReport(
        nccl_version=_text(document, "nccl_version"),
        groups=tuple(_row(comm) for comm in made),
        communicators=tuple(made),
        timeouts=_number(ras, "timeouts_count") if isinstance(ras, dict) else 0,
        timestamp=_text(document, "timestamp"),
    )


def _row(comm: RasCommunicator) -> tuple[str, ...]:
    """Return what the table of a report in text has in its first two and its last two columns."""
    wrong = comm.missing or comm.errors or comm.differences
    return (comm.number, "1", str(comm.size), "RUNNING", "MISMATCH" if wrong else "OK")


def _communicator(
    one: Mapping[str, Any], index: int, said: set[tuple[str, int]]
) -> RasCommunicator:
    ranks = _dictionaries(one, "ranks")
    stated = _dictionaries(one, "missing_ranks")
    missing = [rank for rank in stated if _process(rank) not in said]
    said.update(_process(rank) for rank in stated)
    count = max(_number(one, "missing_ranks_count"), len(stated)) - (len(stated) - len(missing))
    return RasCommunicator(
        number=str(index),
        hash=_text(one, "hash").removeprefix("0x"),
        size=_number(one, "size"),
        differences=tuple(_differences(ranks)),
        missing=count,
        missing_ranks=tuple(_number(rank, "rank") for rank in missing),
        places=tuple(_place(rank) + _silence(rank) for rank in missing),
        errors=tuple(_errors(ranks)),
        ranks=(*map(_rank, ranks), *(_rank(rank, is_missing=True) for rank in stated)),
    )


def _rank(rank: Mapping[str, Any], *, is_missing: bool = False) -> RasRank:
    host, pid = _process(rank)
    counts = rank.get("collective_counts")
    sent = [_number(counts, name) for name in _P2P] if isinstance(counts, dict) else []
    return RasRank(
        rank=_number(rank, "rank"),
        host=host,
        pid=pid,
        device=_number(rank, "cuda_dev"),
        launched={} if is_missing else dict(_launched(rank)),
        num_p2p=sum(sent),
        is_missing=is_missing,
    )


def _launched(rank: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield how many operations of all ranks a rank launched, by type."""
    counts = rank.get("collective_counts")
    for name, count in counts.items() if isinstance(counts, dict) else ():
        if name in _OF_ALL and type(count) is int and count >= 0:
            yield name, count


def _differences(ranks: Sequence[Mapping[str, Any]]) -> Iterator[RasDifference]:
    """Yield the operations of which ranks launched different numbers, and states that differ."""
    launched: dict[str, dict[int, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    states: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for rank in ranks:
        for name, count in _launched(rank):
            launched[name][count].append(rank)
        states[_state(rank)].append(rank)
    if len(states) > 1:
        yield RasDifference("", tuple(_part(held, status=name) for name, held in states.items()))
    for name, by_count in launched.items():
        if len(by_count) > 1:
            parts = (_part(by_count[count], launched=count) for count in sorted(by_count))
            yield RasDifference(name, tuple(parts))


def _part(
    ranks: Sequence[Mapping[str, Any]], *, launched: int | None = None, status: str = ""
) -> RasPart:
    return RasPart(
        ranks=len(ranks),
        launched=launched,
        status=status,
        listed=tuple(sorted(_number(rank, "rank") for rank in ranks)),
        places=tuple(_place(rank) for rank in sorted(ranks, key=lambda one: _number(one, "rank"))),
    )


def _state(rank: Mapping[str, Any]) -> str:
    status = rank.get("status")
    if not isinstance(status, dict):
        return "RUNNING"
    for flag, name in _FLAGS:
        if status.get(flag) in (True, 1):
            return name
    return "RUNNING" if status.get("init_state", 0) == 0 else "INIT"


def _errors(ranks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[int, ...], int]]:
    by_error: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        status = rank.get("status")
        code = status.get("async_error", 0) if isinstance(status, dict) else 0
        if code in _NO_ERROR or isinstance(code, (dict, list)):
            continue
        name = _ERRORS.get(code, f"error {printable(str(code)[:40])}")
        by_error[f"an asynchronous {name}"].append(_number(rank, "rank"))
    for name, held in by_error.items():
        yield name, tuple(sorted(held)), len(held)


def _lost(events: Sequence[Mapping[str, Any]]) -> RasReport | None:
    """Return the processes that events say are lost, None where they lose none.

    The last word on a process counts: one that answers again is not lost.
    """
    lost: dict[str, tuple[str, str]] = {}  # by process: how, and when
    for event in events:
        name, peer = _text(event, "event"), event.get("peer")
        if not isinstance(peer, dict):
            continue
        who = f"process {_number(peer, 'pid')} on node {_text(peer, 'host')}"
        who = who if "host" in peer else f"the process at {_text(peer, 'addr')}"
        is_dead = lost.get(who, ("", ""))[0] == "dead"
        if name in _LOST and not is_dead:
            lost[who] = _LOST[name], _text(event, "timestamp")
        elif name in _BACK and not is_dead:
            lost.pop(who, None)
    if not lost:
        return None
    named: dict[str, list[str]] = {"dead": [], "missing": []}
    for who, (how, time) in lost.items():
        named[how].append(f"{who} (lost at {time})" if time else who)
    return RasReport(
        missing_processes=tuple(named["missing"]),
        num_missing=len(named["missing"]),
        dead_processes=tuple(named["dead"]),
        num_dead=len(named["dead"]),
        timestamp=max(time for _, time in lost.values()),
        is_of_monitor=True,
    )


def _dictionaries(one: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = one.get(key)
    listed = found[:MOST_RANKS] if isinstance(found, list) else []
    return [rank for rank in listed if isinstance(rank, dict) and type(rank.get("rank")) is int]


def _number(one: Mapping[str, Any], key: str) -> int:
    value = one.get(key)
    return value if type(value) is int and 0 <= value < 1 << 40 else 0


def _text(one: Mapping[str, Any], key: str) -> str:
    value = one.get(key)
    return printable(value[:80]) if isinstance(value, str) else ""


def _process(rank: Mapping[str, Any]) -> tuple[str, int]:
    return _text(rank, "host"), _number(rank, "pid")


def _place(rank: Mapping[str, Any]) -> str:
    device, (host, pid) = _number(rank, "cuda_dev"), _process(rank)
    return f"GPU {device} managed by process {pid} on node {host}"


def _silence(rank: Mapping[str, Any]) -> str:
    status = rank.get("status")
    told = status if isinstance(status, dict) else {}
    if told.get("considered_dead") is True:
        return ", considered dead"
    return ", unresponsive" if told.get("unresponsive") is True else ""
