"""Find how a run ended from the end of its log: the first pattern that occurs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ccltui.parsers.names import printable

_TAIL_CHARACTERS: Final = 400_000
_LONGEST: Final = 160


@dataclass(frozen=True, slots=True)
class RunEnd:
    """``kind`` is "completed", "killed", "failed", or "" where the log does not say."""

    kind: str = ""
    text: str = ""


_KILLED: Final = (
    ("time limit", re.compile(r"CANCELLED AT .{0,40}DUE TO TIME LIMIT")),
    ("node failure", re.compile(r"CANCELLED AT .{0,40}DUE TO NODE FAILURE")),
    ("preempted", re.compile(r"CANCELLED AT .{0,40}DUE TO PREEMPTION")),
    ("cancelled", re.compile(r"(?:slurmstepd|srun): error: .{0,120}CANCELLED")),
    ("out of memory on the host", re.compile(r"oom[_-]kill|Out Of Memory|OOM Killed")),
    ("a signal", re.compile(r"exit(?:ed with )?code\s*:?\s*-\d+|Signal \d+ \(SIG[A-Z]+\)")),
    ("a signal", re.compile(r"Received \d+ death signal|died from signal \d+|exited with signal")),
)
_FAILED: Final = (
    ("out of device memory", re.compile(r"(?:OutOfMemoryError|CUDA out of memory)")),
    ("watchdog of NCCL", re.compile(r"Watchdog caught collective operation timeout")),
    ("an error of NCCL", re.compile(r"ncclRemoteError|ncclSystemError|ncclInternalError")),
    ("an exception", re.compile(r"^(?:\S*: )?(?:\w+\.)*\w+(?:Error|Exception): .*$", re.MULTILINE)),
)
_STATED: Final = {
    "watchdog of NCCL": "a collective did not end within the timeout of its group",
}
"""What is said in place of the line: the rank that prints first is not the one to blame."""
_COMPLETED: Final = re.compile(
    r"RUN_COMPLETE\b|Training completed|\[after training is done\]|Training complete\b"
)


def run_end(text: str) -> RunEnd:
    """Return the end of the run by the last part of its log."""
    tail = text[-_TAIL_CHARACTERS:]
    ends = list(_COMPLETED.finditer(tail))
    done = ends[-1] if ends else None
    after = tail if done is None else tail[done.end() :]
    for kind, patterns in (("killed", _KILLED), ("failed", _FAILED)):
        for what, pattern in patterns:
            match = pattern.search(after)
            # An exception while shutting down leaves what was completed complete.
            if match is not None and (done is None or kind == "killed"):
                return RunEnd(kind, f"{what}: {_STATED.get(what) or _line(after, match)}")
    return RunEnd() if done is None else RunEnd("completed", _line(tail, done))


def _line(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line = text[start : len(text) if end < 0 else end].strip()
    at = max(match.start() - start - 20, 0) if len(line) > _LONGEST else 0
    part = line[at : at + _LONGEST]
    if at + _LONGEST < len(line) and " " in part[_LONGEST // 2 :]:
        part = f"{part.rpartition(' ')[0]} …"
    if at and " " in part[: _LONGEST // 2]:
        part = f"… {part.partition(' ')[2]}"
    return printable(part)
