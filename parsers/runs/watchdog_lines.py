"""What the watchdog of PyTorch's process groups prints when a collective does not end.

Each rank prints, for each of its groups, which collective it enqueued, started and completed last,
and at which one it gave up. The messages of PyTorch 1.12 to 2.10 differ in words; all are read
here, in any order, behind any prefix. Nothing is judged: `metrics.hangs` does that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import BoundedText, read_bounded

WORDS: Final = (
    "Watchdog caught collective",
    "NCCL work",
    "enqueued work",
    "failed to pass monitoredBarrier",
    "didn't join collective",
    "didn't finish collective",
    "never joined any collectives",
    "without making progress in monitoring",
)
"""Every line that is read holds one of them."""
_RAISED: Final = re.compile(
    r"\[rank(?P<rank>\d{1,7})\]: ?"
    r"(?P<text>(?!\S*Dist\w*Error)(?:\w+\.){0,6}\w*(?:Error|Exception): \S.*)"
)
_CONSEQUENCE: Final = re.compile(
    r"Watchdog|NCCL|TCPStore|[Cc]onnection|[Bb]roken pipe|[Tt]imed? ?out|remote process|Gloo"
)
"""What a rank raises because another one is gone."""
_LINE: Final = re.compile(
    rf"{'|'.join(map(re.escape, WORDS))}|\[rank\d{{1,7}}\]: ?[\w.]{{0,120}}(?:Error|Exception): "
)
_GROUP: Final = re.compile(
    r"\[PG (?:ID (?P<id>\d{1,9}) )?(?:PG GUID |GUID )?(?P<guid>[^\s()\]]{1,80})"
    r"(?:\s?\((?P<name>[^)\]]{0,200})\))? Rank (?P<rank>\d{1,7})\]"
)
_RANK: Final = re.compile(r"\[Rank (\d{1,7})\]")
_GLOBAL: Final = re.compile(r"\[rank(\d{1,7})\]:")
_STAMP: Final = re.compile(r"\[[EWIF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)")
_TIMEOUT: Final = re.compile(
    r"Watchdog caught collective operation timeout: Work\w*\((?P<fields>[^\n]{0,600}?"
    r"Timeout\(ms\)=(?P<limit>\d{1,12}))\)(?: ran for (?P<ran>\d{1,12}) milliseconds)?"
)
_FIELD: Final = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut)=(\w{1,60})")
_NUMBER: Final = r"-?\d{1,20}"
_STATUS: Final = re.compile(
    r"(?:\bwork(?: sequence id)?: (?P<seq>\d{1,18})\W[^\n]{0,40}?)?"
    rf"\b[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>{_NUMBER})(?: \(\w+\))?"
    rf"(?:,\s*last started (?:NCCL )?work: (?P<started>{_NUMBER})(?: \(\w+\))?)?"
    rf"(?:,\s*last completed (?:NCCL )?work: (?P<completed>{_NUMBER}))?"
)
_LIST: Final = r"\[(?P<ranks>[\d,\s.…]{1,4000})\]"
_DID_NOT_JOIN: Final = re.compile(
    rf"{_LIST} finished collective #(?P<seq>\d{{1,18}}), but didn't join"
)
_DID_NOT_FINISH: Final = re.compile(
    rf"{_LIST} joined but didn't finish collective #(?P<seq>\d{{1,18}})"
)
_NEVER_JOINED: Final = re.compile(rf"ranks {_LIST} are the lagging ranks that caused this timeout")
_BARRIER: Final = re.compile(
    r"\b(?:Ranks? )(?P<ranks>\d[\d,\s]{0,4000}?) failed to pass monitoredBarrier"
)
_STUCK: Final = re.compile(
    r"watchdog got stuck for (?P<seconds>\d{1,9}) ?(?:seconds|s)?\s*without making progress"
)
_RESTART: Final = re.compile(
    r"Restarting worker group|Starting elastic_operator|\[\S*\] Rendezvous'ing worker group"
    r"|Setting ds_accelerator to|initializing torch distributed|restart_count=[1-9]"
    r"|using world size:"
)
"""What programs print when they start; lines after it are of another attempt."""
_APART_S: Final = 900.0
"""Ranks give up within a timeout's spread of each other and dump for at most minutes."""
_LONGEST_LINE: Final = 4000
_LONGEST_TEXT: Final = 120
_MOST_STATES: Final = 200_000
DEFAULT_NAMES: Final = ("default_pg", "default")


class GroupState(Struct, frozen=True):
    """What one rank said of one group in one attempt of the job.

    Sequence numbers count the collectives of the group; -1: never, None: not said.
    ``rank`` is the rank in the job, None where only that in the group is known.
    """

    attempt: int
    group: str
    name: str
    rank: int | None
    local_rank: int | None
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None
    timed_out: int | None = None
    operation: str = ""
    numel_in: int | None = None
    numel_out: int | None = None
    limit_ms: int | None = None
    waited_ms: int | None = None
    path: str = ""
    line: int = 0

    @property
    def is_default(self) -> bool:
        """Whether it is the group of all ranks."""
        return self.name in DEFAULT_NAMES or (not self.name and self.group in ("0", ""))


class Desync(Struct, frozen=True):
    """Ranks that a report of PyTorch itself names: ``seq`` is the last they finished or joined.

    "raised" is an error of the rank itself, "lost" one that follows from the end of another.
    """

    attempt: int
    kind: str  # "did_not_join", "did_not_finish", "never_joined", "barrier", "stuck", "raised", …
    ranks: tuple[int, ...]
    seq: int | None
    path: str
    line: int
    text: str = ""  # what a rank raised


class WatchdogLines(Struct, frozen=True):
    """All that the watchdogs said in some logs. ``attempts`` with such words, the last one last."""

    states: tuple[GroupState, ...] = ()
    desyncs: tuple[Desync, ...] = ()
    attempts: int = 0
    world_size: int | None = None

    def of_attempt(self, attempt: int) -> WatchdogLines:
        """Return what belongs to one attempt."""
        return replace(
            self,
            states=tuple(one for one in self.states if one.attempt == attempt),
            desyncs=tuple(one for one in self.desyncs if one.attempt == attempt),
        )


class _Said(Struct):
    """One line as it is read, before it is known which group a timeout is of."""

    at_s: float | None
    order: tuple[int, int]
    rank: int | None
    local_rank: int | None
    group: str | None
    name: str
    path: str
    line: int
    restart: int
    seq: int | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    timeout: bool = False
    operation: str = ""
    desync: tuple[str, tuple[int, ...], int | None, str] | None = None
    attempt: int = 0


def read_watchdog_lines(files: Sequence[tuple[Path, str, int | None]]) -> WatchdogLines:
    """Read the watchdog's words in the logs of one job.

    Args:
        files: Path, path in messages, and the rank that the name of the file states, of each log.

    Raises:
        TraceError: A file cannot be read.
    """
    said: list[_Said] = []
    world: int | None = None
    for number, (path, shown, rank) in enumerate(files):
        text = read_bounded(path, shown=shown)
        found = list(_said(text, number, shown, rank))
        if found:
            said += found
            world = world or stated_world(text.head)
    return _folded(said, world)


_WORLD: Final = re.compile(
    r"using world size:? *(\d{1,8})|\bworld_size\s*\.{3,}\s*(\d{1,8})"
    r"|\b(?:WORLD_SIZE|world_size)[=:] ?(\d{1,8})"
    r"|\bparameters on (\d{1,8}) ranks\b|\bMEMBER: \d+/(\d{1,8})\b"
)
_BEGIN: Final = 2_000_000


def stated_world(begin: str) -> int | None:
    """Return the number of ranks that the beginning of a log states."""
    match = _WORLD.search(begin[:_BEGIN])
    return None if match is None else int(next(group for group in match.groups() if group))


def _said(text: BoundedText, file: int, shown: str, of_file: int | None) -> Iterator[_Said]:
    number, restart = 1, 0
    for part in map(_unbroken, text.plain_of_ansi()):
        at = 0
        for match in re.finditer(f"{_LINE.pattern}|{_RESTART.pattern}", part):
            if match.start() < at:
                continue
            begin = part.rfind("\n", 0, match.start()) + 1
            end = part.find("\n", match.end())
            end = len(part) if end < 0 else end
            number += part.count("\n", at, begin)
            line, at = _unwrapped(part, begin, end)
            if _LINE.search(line) is None:
                restart = number
            else:
                yield from _of_line(text, line, (file, number), (shown, of_file), restart)
            number += part.count("\n", begin, at)
        number += part.count("\n", at)


_BEGINS: Final = re.compile(
    r"Watchdog caught collective operation|enqueued (?:NCCL )?work|NCCL work:"
)
_NEXT: Final = re.compile(r"\s*(?:\S{0,40}\[(?:rank|Rank|E|W|I|PG)|frame #|Exception raised|$)")
"""How a line begins that is not the rest of the line before."""
_MOST_WRAPPED: Final = 2
_WIDTHS: Final = range(60, 500)
"""Characters of a terminal or of a field of a form."""
_LEAST_BROKEN: Final = 5


def _unbroken(text: str) -> str:
    """Return a text with the lines rejoined that a terminal broke where they reached its width."""
    if _LINE.search(text) is None and "Watchdog" not in text:
        return text
    lines = text.split("\n")
    width = max(map(len, lines))
    full = sum(len(line) == width for line in lines)
    if width not in _WIDTHS or full < _LEAST_BROKEN:
        return text
    pieces = []
    for line, after in itertools.pairwise([*lines, ""]):
        pieces.append(line)
        if len(line) < width or _NEXT.match(after):
            pieces.append("\n")
    return "".join(pieces)


def _unwrapped(part: str, begin: int, end: int) -> tuple[str, int]:
    """Return a line and where it ends, with its rest where a terminal broke it into several."""
    line = part[begin : min(end, begin + _LONGEST_LINE)]
    whole, at = line, end
    for _ in range(_MOST_WRAPPED):
        if _is_whole(whole) or at >= len(part):
            break
        after = part.find("\n", at + 1)
        after = len(part) if after < 0 else after
        rest = part[at + 1 : min(after, at + 1 + _LONGEST_LINE)]
        if _NEXT.match(rest):
            break
        whole, at = _rejoined(whole, rest), after
    return (whole, at) if _is_whole(whole) else (line, end)


def _rejoined(line: str, rest: str) -> str:
    """Return both parts of a line; the blank at which it was broken may be lost."""
    near = line + rest
    return near if _is_whole(near) or not _is_whole(f"{line} {rest}") else f"{line} {rest}"


def _is_whole(line: str) -> bool:
    """Whether a line has all that its message states, or is none that is read by its end."""
    if _BEGINS.search(line) is None:
        return True
    return _TIMEOUT.search(line) is not None or _STATUS.search(line) is not None


def _of_line(
    text: BoundedText,
    line: str,
    order: tuple[int, int],
    of_file: tuple[str, int | None],
    restart: int,
) -> Iterator[_Said]:
    prefix, rest = text.prefixes.split(line)
    stated = _GLOBAL.findall(line)
    rank = int(stated[-1]) if stated else text.prefixes.rank(prefix)
    rank = of_file[1] if rank is None else rank
    group, local = _GROUP.search(line), _RANK.search(line)
    one = _Said(
        at_s=_seconds(line),
        order=order,
        rank=rank,
        local_rank=int(group["rank"]) if group else int(local[1]) if local else None,
        group=printable(group["guid"]) if group else None,
        name=printable(group["name"] or "") if group else "",
        path=of_file[0],
        line=order[1],
        restart=restart,
    )
    if one.rank is None and one.group is not None and _is_default(one.group, one.name):
        one.rank = one.local_rank
    timeout, status = _TIMEOUT.search(rest), _STATUS.search(rest)
    if timeout is not None:
        yield _timed_out(one, timeout)
    elif status is not None:
        yield _stated(one, status)
    elif (raised := _RAISED.search(line)) is not None:
        kind = "raised" if _CONSEQUENCE.search(raised["text"]) is None else "lost"
        text_of = printable(raised["text"][:_LONGEST_TEXT])
        yield replace(one, desync=(kind, (int(raised["rank"]),), None, text_of))
    else:
        yield from _reported(one, rest)


def _timed_out(one: _Said, match: re.Match[str]) -> _Said:
    fields = dict(_FIELD.findall(match["fields"]))
    one.timeout = True
    one.seq = _whole(fields.get("SeqNum"))
    one.operation = printable(fields.get("OpType", ""))
    for name, key in (("numel_in", "NumelIn"), ("numel_out", "NumelOut")):
        if (value := _whole(fields.get(key))) is not None:
            one.numbers[name] = value
    one.numbers["limit_ms"] = int(match["limit"])
    if match["ran"]:
        one.numbers["waited_ms"] = int(match["ran"])
    return one


def _stated(one: _Said, match: re.Match[str]) -> _Said:
    one.seq = _whole(match["seq"])
    for name in ("enqueued", "started", "completed"):
        if match[name] is not None:
            one.numbers[name] = int(match[name])
    enqueued, completed = one.numbers.get("enqueued"), one.numbers.get("completed")
    if enqueued is not None and completed is not None and completed > enqueued:
        del one.numbers["completed"]  # PyTorch 2.2 prints memory that was never set
    return one


def _reported(one: _Said, rest: str) -> Iterator[_Said]:
    kinds = (
        ("did_not_join", _DID_NOT_JOIN),
        ("did_not_finish", _DID_NOT_FINISH),
        ("never_joined", _NEVER_JOINED),
        ("barrier", _BARRIER),
    )
    for kind, pattern in kinds:
        for match in pattern.finditer(rest):
            ranks = tuple(int(rank) for rank in re.findall(r"\d{1,7}", match["ranks"]))
            seq = match.groupdict().get("seq")
            yield replace(one, desync=(kind, ranks, None if seq is None else int(seq), ""))
    if _STUCK.search(rest) and (one.rank is not None or one.local_rank is not None):
        rank = one.local_rank if one.rank is None else one.rank
        yield replace(one, desync=("stuck", () if rank is None else (rank,), None, ""))


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


def _is_default(group: str, name: str) -> bool:
    return name in DEFAULT_NAMES or (not name and group == "0")


def _seconds(line: str) -> float | None:
    """Seconds of the time of a line, in a year without a number."""
    match = _STAMP.search(line)
    if match is None:
        return None
    month, day, hour, minute, second = map(int, match.groups())
    try:
        return datetime(2000, month, day, hour, minute, second).timestamp()
    except ValueError:
        return None


def _folded(said: list[_Said], world: int | None) -> WatchdogLines:
    """Return one state for each rank, group and attempt."""
    said = said[:_MOST_STATES]
    attempts = _set_attempts(said)
    _set_groups(said)
    if all(one.group is None for one in said):  # PyTorch up to 2.1 names no group
        for one in said:
            one.rank = one.local_rank if one.rank is None else one.rank
    states: dict[tuple[int, str, int | None, int | None], GroupState] = {}
    desyncs = []
    for one in said:
        if one.desync is not None:
            desyncs.append(Desync(one.attempt, *one.desync[:3], one.path, one.line, one.desync[3]))
            continue
        group = one.group or ""
        key = (one.attempt, group, one.rank, None if one.rank is not None else one.local_rank)
        old = states.get(key) or GroupState(
            one.attempt, group, one.name, one.rank, one.local_rank, path=one.path, line=one.line
        )
        states[key] = _with(old, one)
    return WatchdogLines(tuple(states.values()), tuple(dict.fromkeys(desyncs)), attempts, world)


def _with(old: GroupState, one: _Said) -> GroupState:
    numbers: dict[str, Any] = dict(one.numbers)
    for name in ("enqueued", "started", "completed"):
        before = getattr(old, name)
        if before is not None and name in numbers:
            numbers[name] = max(before, numbers[name])
    is_first = one.seq is not None and (old.timed_out is None or one.seq <= old.timed_out)
    if not is_first and one.timeout:  # a later collective of the same group
        numbers = {}
    return replace(
        old,
        **numbers,
        name=old.name or one.name,
        local_rank=one.local_rank if old.local_rank is None else old.local_rank,
        timed_out=one.seq if is_first else old.timed_out,
        operation=one.operation if one.operation and is_first else old.operation or one.operation,
    )


def _set_attempts(said: list[_Said]) -> int:
    """Number the attempts of the job, in the order of each log.

    Between two attempts lies a start of the program, or a quarter of an hour.
    """
    by_file: dict[int, list[_Said]] = {}
    for one in said:
        by_file.setdefault(one.order[0], []).append(one)
    counts = []
    for lines in by_file.values():
        attempt, restart, last_s = 1, lines[0].restart, lines[0].at_s
        for one in lines:
            gap = None if one.at_s is None or last_s is None else abs(one.at_s - last_s)
            if one.restart != restart or (gap is not None and gap > _APART_S):
                attempt += 1
            restart, last_s = one.restart, one.at_s if one.at_s is not None else last_s
            one.attempt = attempt
        counts.append(attempt)
    most = max(counts, default=0)
    for lines in by_file.values():  # a rank that missed an attempt was there for the last one
        missed = most - lines[-1].attempt
        for one in lines:
            one.attempt += missed
    return most


def _set_groups(said: list[_Said]) -> None:
    """Give each timeout the group that the same rank names for the same sequence number."""
    named: dict[tuple[int, int | None, int | None, int | None], tuple[str, str]] = {}
    groups: dict[tuple[int, int | None, str], set[tuple[str, str]]] = {}
    for one in said:
        if one.group is not None and not one.timeout and one.seq is not None:
            named[one.attempt, one.rank, one.local_rank, one.seq] = (one.group, one.name)
    for one in said:
        if one.group is None and one.timeout:
            found = named.get((one.attempt, one.rank, one.local_rank, one.seq))
            if found is not None:
                one.group, one.name = found
    for one in said:
        if one.group is not None and one.timeout:
            key = (one.attempt, one.seq, one.operation)
            groups.setdefault(key, set()).add((one.group, one.name))
    for one in said:
        if one.group is None and one.desync is None:
            alike = groups.get((one.attempt, one.seq, one.operation), set())
            if len(alike) == 1:
                one.group, one.name = next(iter(alike))
