"""Lines in which programs, launchers, NCCL, Slurm and the kernel say why a job ended.

An error is no end where the program goes on after it: its steps, its own words and its last line
tell. Each line has a cause. Causes are listed from what starts a failure to what follows from it:
where the memory of a host runs out, other ranks then lose their connections. Nothing is judged
here: `metrics.findings.recordings.failure_findings` does that.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Final, Literal

from msgspec import Struct, field

from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import BoundedText
from ccltui.parsers.text.line_prefixes import Prefixes

Cause = Literal[
    "device_lost",
    "node_failure",
    "host_memory",
    "disk",
    "device_memory",
    "device_error",
    "same_rank",
    "same_device",
    "port",
    "mismatch",
    "stalled",
    "exception",
    "failed_test",
    "link",
    "connect",
    "start",
    "warning",
    "signal",
    "time_limit",
    "preempted",
    "exit_code",
    "peer_gone",
    "other_error",
    "cancelled",
]

_WHAT: Final = r"(?P<what>[^\n]{1,160})"
_PATTERNS: Final[tuple[tuple[Cause, str, str], ...]] = (
    # cause, a text that each match holds, and the form
    ("device_lost", "NVRM: Xid", r"NVRM: Xid \((?:PCI:)?(?P<device>[\w:.]{1,40})\): "
     r"(?P<xid>\d{1,4})(?:, (?:pid=[^,\n]{1,40}, )?(?:name=[^,\n]{1,80}, )?" + _WHAT + ")?"),
    ("node_failure", "NODE FAILURE", r"CANCELLED AT [^\n]{0,40}DUE TO NODE FAILURE"),
    ("host_memory", "Out Of Memory", r"\btasks? (?P<ranks>\d[\d,\-]{0,400}): Out Of Memory"),
    ("host_memory", "oom", r"oom[_-]kill event"),
    ("host_memory", "Out of memory: Kill", r"Out of memory: Kill(?:ed)? process \d+"),
    ("host_memory", "OOM", r"OOM ?Killed"),
    ("disk", "No space left", r"(?P<what>No space left on device)"),
    ("disk", "quota exceeded", r"(?P<what>Disk quota exceeded)"),
    ("disk", "shared memory", r"(?P<what>insufficient shared memory)"),
    ("disk", "shared memory segment", r"(?P<what>Error while creating shared memory segment "
     r"\S{1,80})"),
    ("device_memory", "OutOfMemoryError", r"OutOfMemoryError"),
    ("device_memory", "out of memory", r"(?:CUDA|HIP|XPU)(?: error:)? out of memory|"
     r"Cuda failure (?:\d{1,4} )?'out of memory'"),
    ("device_memory", "RESOURCE_EXHAUSTED", r"RESOURCE_EXHAUSTED: Out of memory"),
    ("device_error", " error: ", r"\b(?:CUDA|HIP) error: (?!out of memory)" + _WHAT),
    ("device_error", "Cuda failure", r"Cuda failure (?:\d{1,4} )?'(?!out of memory)"
     r"(?P<what>[^'\n]{1,100})'"),
    ("device_error", "Memory access fault", r"(?P<what>Memory access fault by GPU)"),
    ("same_rank", "already checked in", r"rank (?P<number>\d{1,7}) of (?P<world>[1-9]\d{0,7}) "
     r"ranks has already checked in"),
    ("same_device", "Duplicate GPU", r"Duplicate GPU detected : rank (?P<number>\d{1,7}) and rank "
     r"(?P<other>\d{1,7}) both on CUDA device (?P<device>\w{1,20})"),
    ("port", "ddress already in use", r"[Aa]ddress already in use"),
    ("mismatch", "Mismatched collective", r"Mismatched collective detected[^\n]{0,80}? at and "
     r"around rank (?P<number>\d{1,7})"),
    ("stalled", "issing ranks", r"(?P<what>[\w./-]{1,300}) \[missing ranks: "
     r"(?P<ranks>\d[\d, ]{0,4000})\]"),
    ("stalled", "[ready ranks", r"(?P<what>[\w./-]{1,300}) \[ready ranks: "
     r"(?P<ready>\d[\d, ]{0,4000})\]"),
    ("stalled", "issing ranks:", r"Missing ranks:\n(?:[^\n]{0,40}\n)?(?P<ranks>\d{1,7}): "
     r"\[(?P<what>[^,\]\n]{1,300})"),
    *(("exception", f"{word}: ", rf"\b(?P<what>(?:\w{{1,40}}\.){{0,6}}\w{{0,60}}{word}: [^\n]+)")
      for word in ("Error", "Exception")),
    ("exception", "Error\n", r"\b(?P<bare>(?:\w{1,40}\.){0,6}\w{1,60}Error)$"),
    ("failed_test", "Test ", r"(?P<what>Test (?:NCCL|CUDA) failure [^\n]{1,160})"),
    ("link", "Got completion from peer", r"Got completion from peer (?P<peer>[^\s<]{1,80})"
     r"(?:<\d+>)? with (?:status=|error )(?P<status>\d{1,4})"),
    ("link", "async event", r"Got (?:\w+ )?async (?:\w+ )?event ?: (?!client rereg)" + _WHAT),
    ("connect", "onnect to ", r"[Cc]onnect to (?P<peer>[^\s<]{1,80}?)(?:<\d+>)? failed ?: ?"
     + _WHAT),
    ("connect", "Call to connect", r"Call to connect(?: to (?P<peer>[^\s<]{1,80}?)(?:<\d+>)?)? "
     r"(?:returned|failed ?:) ?(?P<what>[^\n,]{1,80})"),
    ("connect", "connectFullMesh", r"(?P<what>Gloo connectFullMesh failed)"),
    ("connect", "socket interface", r"(?P<what>no socket interface found)"),
    ("start", "store_based_barrier_key", r"rank: (?P<number>\d{1,7}), (?:for )?key: "
     r"store_based_barrier_key:\d{1,9} \(world_size=(?P<world>[1-9]\d{0,7}), "
     r"(?:num_workers_joined|worker_count)=(?P<count>\d{1,8}), timeout=(?P<limit>[\d:]{1,20})"),
    ("start", "clients joined", r"waiting for clients\. (?P<count>\d{1,8})/(?P<world>[1-9]\d{0,7}) "
     r"clients joined"),
    ("warning", "NCCL WARN", r"NCCL WARN (?P<what>(?!NET/Plugin|Missing |Failed to open |Could not "
     r"find )[^\n]{0,80}?\b(?:[Ff]ail(?:ed|ure)|[Ee]rror|[Uu]nable|[Cc]ould not|[Cc]annot)\b"
     r"[^\n]{0,120})"),
    ("signal", "exitcode", r"rank +: (?P<number>\d{1,7}) \(local_rank: \d+\)\n[^\n]{0,200}"
     r"exitcode +: -(?P<signal>[1-9]\d?)\b"),
    ("signal", "exitcode", r"exitcode: -(?P<signal>[1-9]\d?)\) local_rank: (?P<local>\d{1,4})"),
    ("signal", "on signal", r"process rank (?P<number>\d{1,7}) with PID \d+ on node "
     r"(?P<host>\S{1,80}) exited on signal (?P<signal>\d{1,2})"),
    ("signal", "return code", r"exits with return code = -(?P<signal>\d{1,2})\b"),
    ("signal", "Signal ", r"Signal (?P<signal>\d{1,2}) \(SIG[A-Z]+\)"),
    ("signal", "signal ", r"(?:died from|exited with) signal:? (?P<signal>\d{1,2})"),
    ("signal", "death signal", r"Received (?P<signal>\d{1,2}) death signal"),
    ("signal", "exit code", r"exited with code:? -(?P<signal>\d{1,2})\b"),
    ("signal", "Segmentation fault", r"\btasks? (?P<ranks>\d[\d,\-]{0,400}): Segmentation fault"),
    ("signal", "Killed", r"\btasks? (?P<ranks>\d[\d,\-]{0,400}): Killed|line \d+: +\d+ Killed\b"),
    ("time_limit", "TIME LIMIT", r"CANCELLED AT [^\n]{0,40}DUE TO TIME LIMIT"),
    ("preempted", "PREEMPTION", r"CANCELLED AT [^\n]{0,40}DUE TO PREEMPTION"),
    ("exit_code", "exitcode", r"rank +: (?P<number>\d{1,7}) \(local_rank: \d+\)\n[^\n]{0,200}"
     r"exitcode +: (?P<code>[1-9]\d{0,2})\b"),
    ("exit_code", "exitcode", r"exitcode: (?P<code>[1-9]\d{0,2})\) local_rank: (?P<local>\d{1,4})"),
    ("exit_code", "exit code", r"\btasks? (?P<ranks>\d[\d,\-]{0,400}): Exited with exit code "
     r"(?P<code>[1-9]\d{0,2})"),
    ("peer_gone", "by peer", r"Connection (?:closed|reset) by peer"
     r"(?: \[(?P<peer>[^\]\s]{1,60})\])?"),
    ("peer_gone", "Read error", r"Read error \[(?P<peer>[\w.:]{3,60})\](?::\d+)?: "
     r"Connection reset"),
    ("peer_gone", "closed by remote peer", r"Connection closed by remote peer "
     r"(?P<peer>[^\s<]{1,80})"),
    ("peer_gone", "ncclRemoteError", r"ncclRemoteError"),
    ("peer_gone", "Timed out waiting", r"Timed out waiting (?P<ms>\d{1,12})ms for (?P<what>\w+) "
     r"operation"),
    ("other_error", "nccl", r"(?P<what>nccl(?:System|Internal|UnhandledCuda|InvalidUsage|"
     r"InvalidArgument)Error|ncclInvalid(?:Usage|Argument))\b"),
    ("cancelled", "CANCELLED", r"(?:slurmstepd|srun)[\w.-]{0,80}: error: [^\n]{0,120}CANCELLED"),
)  # fmt: skip
_COMPILED: Final = tuple(
    (cause, word, re.compile(form, re.MULTILINE)) for cause, word, form in _PATTERNS
)
CAUSES: Final[Mapping[Cause, int]] = {
    cause: at for at, cause in enumerate(dict.fromkeys(cause for cause, *_ in _PATTERNS))
}
"""Place of each cause: what starts a failure comes before what follows from it."""
KILLED: Final = frozenset(
    {"node_failure", "host_memory", "signal", "time_limit", "preempted", "cancelled"}
)
"""Causes by which the program is ended from outside."""
_ENDS: Final = frozenset({"signal", "exit_code"})
"""What a launcher says of the end of a process: a script prints its last words after it too."""
_FOLLOWS: Final = re.compile(
    r"Watchdog|NCCL|nccl|TCPStore|[Cc]onnection|[Bb]roken pipe|[Tt]imed? ?out|remote process"
    r"|[Gg]loo|Dist\w*Error|Ray\w*Error|ActorDiedError"
)
"""What is raised because another process is gone, or does not come."""
_SAYS_NOTHING: Final = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|SignalException|store_based_barrier"
    r"|failed with exit code|OutOfMemoryError"
)
"""What is raised to say that a process failed, or what has a form of its own."""
_APPLICATION_XIDS: Final = frozenset({13, 31, 32, 43, 45, 63, 68, 69})
"""Errors of the driver that a program causes, that follow from its end, or (63: a row of memory is
replaced at the next reset) that a program does not notice."""
_HANDLED: Final = frozenset(
    {"exception", "other_error", "device_memory", "disk", "connect", "warning", "port", "peer_gone"}
)
"""Causes after which a program may go on: what it prints beside them says whether it does."""
_NEXT_ADDRESS: Final = re.compile(r"\[W[^\]\n]{0,60}socket\.cpp:\d")
"""A warning of PyTorch, which tries an address of another kind next."""
_MINOR_SIGNALS: Final = frozenset({1, 2, 6, 15})
"""Ends that launchers order, or that a program orders for itself after an error."""
_AGENTS: Final = re.compile(
    r"torch[./]distributed[./](?:elastic|run\b|launch)|ChildFailedError|torchrun"
    r"|accelerate[ .](?:commands\.)?launch|\[launch\.py:\d|deepspeed[./]launcher"
)
"""Marks of a launcher that starts the ranks of a host: tasks of srun are such launchers."""
_TAIL: Final = 8_000_000
"""Characters of the end of a log that are searched: every rank prints stacks when a job ends."""
_HEAD: Final = 1_000_000
_MOST: Final = 2_000
_MOST_LISTS: Final = 64
_MOST_LISTED: Final = 1 << 14
"""Ranks of one line: all tasks of a large job; a longer list is a misreading, and takes memory."""
_LONGEST: Final = 200
_LONGEST_LINE: Final = 4_000
LONGEST_NAME: Final = 60
"""Characters of the name of an exception or of what could not be opened."""
_HOST: Final = re.compile(
    r"(?:^|\s)(?P<host>[\w.\-]{1,253}):\d{1,10}:\d{1,10}\s+\[(?P<device>\d{1,4})\]"
)
_STEP_HOST: Final = re.compile(r"srun: error: (?P<host>[\w.-]{1,80}): task")
_RANK: Final = re.compile(
    r"\[rank ?(\d{1,7})\]|\[Rank (\d{1,7})\]|\bRank (\d{1,7})\]|\[\w{1,40}\|(\d{1,7})\]:"
)


class Failure(Struct, frozen=True):
    """One line that says why something ended.

    ``ranks`` are ranks of the job, ``local_rank`` that of a host; ``is_inferred`` where the line
    names the other ranks, and the number of all is not known. ``host`` and ``device`` where the
    line states them. ``what`` is the error in its own words, ``line`` all of it. ``numbers`` are
    those of the form: ``world`` and ``count`` of ranks, ``signal``, ``code``, ``status``, ``xid``.
    """

    cause: Cause
    what: str
    line: str
    path: str
    at: int
    ranks: tuple[int, ...] = ()
    is_inferred: bool = False
    local_rank: int | None = None
    host: str = ""
    device: str = ""
    peer: str = ""
    limit: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)


def read_failures(text: BoundedText, shown: str, rank: int | None = None) -> list[Failure]:
    """Return the failures that a log tells of, in its order, but for those that it went on after.

    Args:
        text: The log.
        shown: Path in messages.
        rank: The rank that the name of the file states.
    """
    parts = list(text.plain_of_ansi())
    tail = parts[-1][-_TAIL:].replace("\r", "\n") if parts else ""
    return failures_in(tail, shown=shown, rank=rank, prefixes=text.prefixes, head=text.head)


def failures_in(
    text: str,
    *,
    shown: str = "",
    rank: int | None = None,
    prefixes: Prefixes | None = None,
    head: str = "",
) -> list[Failure]:
    """Return the failures that a piece of a log tells of; launchers print at its ``head``."""
    has_agents = any(_AGENTS.search(part) for part in (head[:_HEAD], text))
    source = _Source(text, shown, rank, prefixes or Prefixes(text), has_agents)
    found: list[Failure] = []
    last = went_on_at(text)
    for cause, word, form in _COMPILED:
        if word in text:
            # a driver reports the loss of a device once, and others may go on for long
            matches = form.finditer(text, 0 if cause == "device_lost" else max(last, 0))
            most = _MOST_LISTS if {"ranks", "ready"} & form.groupindex.keys() else _MOST
            told = (one for match in matches if (one := source.failure(cause, match)) is not None)
            found += islice(told, most)
    if not found:
        return []
    found.sort(key=lambda one: one.at)
    done = completed_at(text)
    if done is None or (done["script"] and any(one.cause in _ENDS for one in found)):
        return found
    # what happens while a finished program is torn down does not undo it
    return [one for one in found if one.at >= done.end() and one.cause in KILLED]


class _Source(Struct, frozen=True, dict=True):
    """A text, and what is known of all of its lines."""

    text: str
    shown: str
    rank: int | None
    prefixes: Prefixes
    has_agents: bool

    @cached_property
    def _connected(self) -> Mapping[str, int]:
        return connected_at(self.text)

    def failure(self, cause: Cause, match: re.Match[str]) -> Failure | None:
        """Return what a line says, None where it says nothing of the end of the job."""
        named = {name: value for name, value in match.groupdict().items() if value}
        numbers: dict[str, int] = {one: int(named[one]) for one in _NUMBERS if one in named}
        line = self._line(match)
        prefix, rest = self.prefixes.split(line)
        if "bare" in named:
            named["what"] = named["bare"]
        # the last line of a stack begins with the exception: others quote one
        if cause == "exception" and _FOLLOWS.search(named["what"]):
            cause = "other_error"
        if _is_minor(cause, named, numbers) or (
            _is_raised(named) and not rest.startswith(named["what"][:LONGEST_NAME])
        ):
            return None
        if "bare" in named:  # an error without a message: it is a word of a text elsewhere
            begin = self.text.rfind("\n", 0, match.start()) + 1
            is_end = rest.strip() == named["bare"] and self._has_stack(begin)
            if not is_end or _SAYS_NOTHING.search(named["bare"]):
                return None
        if cause in _HANDLED and self._goes_on(cause, line, match.start()):
            return None
        host = _HOST.search(line) or _STEP_HOST.search(line)
        places = {} if host is None else host.groupdict()
        return Failure(
            cause,
            printable(named.get("what", "").strip()[:_LONGEST]),
            printable(" ".join(line.split())[:_LONGEST]),
            self.shown,
            match.start(),
            self._ranks(named, numbers, line, prefix),
            "ready" in named,
            numbers.get("local"),
            printable(named.get("host") or places.get("host") or ""),
            printable(named.get("device") or places.get("device") or ""),
            printable(named.get("peer", "")),
            named.get("limit", ""),
            numbers,
        )

    def _goes_on(self, cause: Cause, line: str, at: int) -> bool:
        """Return whether the program says that it goes on after the error of a line."""
        begin = self.text.rfind("\n", 0, at) + 1
        if cause in ("connect", "warning") and self._connected.get(nccl_process(line), -1) > at:
            return True
        if cause == "connect":  # it may try again until the job is ended
            return False
        # a stack ends with the message of the error, whose words are of what was tried before
        if says_to_go_on(line) and not self._has_stack(begin):
            return True
        if cause == "port" and _NEXT_ADDRESS.search(line) is not None:
            return True
        after = self.text[begin + len(line) + 1 : begin + 2 * _LONGEST_LINE].partition("\n")[0]
        heads = [self.prefixes.source(self.prefixes.split(one)[0]) for one in (line, after)]
        if heads[0] == heads[1] and "NCCL" not in after and says_to_go_on(after):
            return True
        return is_ignored(self.text, begin)

    def _has_stack(self, begin: int) -> bool:
        """Return whether the line above the one that begins here is of a stack of Python."""
        above = self.text[max(begin - _LONGEST_LINE, 0) : max(begin - 1, 0)].rpartition("\n")[2]
        return self.prefixes.split(above)[1].startswith("  ")

    def _line(self, match: re.Match[str]) -> str:
        begin = self.text.rfind("\n", 0, match.start()) + 1
        end = self.text.find("\n", match.end())
        end = len(self.text) if end < 0 else end
        return self.text[begin : min(end, begin + _LONGEST_LINE)]

    def _ranks(
        self, named: Mapping[str, str], numbers: Mapping[str, int], line: str, prefix: str
    ) -> tuple[int, ...]:
        if "ranks" in named:
            is_task = self.has_agents and _STEP_HOST.search(line) is not None
            return () if is_task else _listed(named["ranks"])
        if "ready" in named:
            ready = _listed(named["ready"])
            if not ready or ready[-1] > _MOST_LISTED:  # more than a job has: a misreading
                return ()
            return tuple(sorted(set(range(ready[-1])) - set(ready)))
        if "number" in numbers:
            return tuple(numbers[name] for name in ("number", "other") if name in numbers)
        stated = _RANK.search(line)
        if stated is not None:
            return (int(next(group for group in stated.groups() if group)),)
        if "local" in numbers:
            return ()
        rank = None if self.has_agents else self.prefixes.rank(prefix)
        rank = self.rank if rank is None else rank
        return () if rank is None else (rank,)


_NUMBERS: Final = (
    *("number", "other", "world", "count", "signal", "code", "status", "xid", "local", "ms"),
)


def _is_minor(cause: Cause, named: Mapping[str, str], numbers: Mapping[str, int]) -> bool:
    if _is_raised(named):
        return _SAYS_NOTHING.search(named["what"]) is not None
    if cause == "signal":
        if numbers.get("signal") == signal.SIGABRT and ("number" in numbers or "local" in numbers):
            return False  # the launcher names the process that ended first
        return numbers.get("signal") in _MINOR_SIGNALS
    return cause == "device_lost" and numbers["xid"] in _APPLICATION_XIDS


def _is_raised(named: Mapping[str, str]) -> bool:
    return _RAISED.match(named.get("what", "")) is not None


_RAISED: Final = re.compile(r"[\w.]{0,300}(?:Error|Exception): ")


def _listed(text: str) -> tuple[int, ...]:
    """Return the numbers of "1-3,7", () where they are more than a job has."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        listed = range(int(first), int(last or first) + 1)
        if listed.stop - listed.start > _MOST_LISTED or len(found) > _MOST_LISTED:
            return ()
        found.update(listed)
    return tuple(sorted(found))


_LOSS: Final = r"(?:[Ll]oss|LOSS)\b"
_RATE: Final = r"(?:tokens?|tok|samples|images)(?:/s|_per_s|[ -]per[ -]s)"
_SIGN: Final = re.compile(
    # of transformers, of a bar of progress, and of servers
    rf"\{{'loss': [^\n]{{0,200}}?'epoch': (?P<epoch>[\d.]{{1,20}})"
    rf"|(?P<serves>throughput: [\d.]{{1,20}} tokens/s)|{_LOSS}|\b{_RATE}"
)
"""What only a line of a step has; whatever is before it names the step."""
_STEP: Final = re.compile(
    # 1/90 [00:09<00:10
    r"(?<!\d)(?P<bar>\d{1,9}/\d{1,9}) \[[\d:]{4,12}<"
    # step 12, "step": 12, Epoch: [0][12/90]
    r"|\b(?:global_step|[Ss]tep|[Ii]ter(?:ation)?|[Ee]poch)\b[\"' :=\[#]{0,6}"
    r"(?!\d{1,9}(?::|\W)[^\n]{0,40}\|[^\n]{0,40}\[[\d:]{4,12}<)(?P<step>\d[\d/\]\[,]{0,30})"
)
_BEFORE: Final = 300
"""Characters before a sign of a step in which the number of the step is."""
_GOES_ON: Final = 3
"""Steps after a failure by which the job has gone on; other ranks may print one or two."""
_COMPLETED: Final = re.compile(
    r"RUN_COMPLETE\b|\[after training is done\]"
    r"|`Trainer\.fit` stopped: `max_|['\"]train_runtime['\"]: "
    r"|\"key\": \"run_stop\"[^\n]{0,400}\"status\": \"success\""
    r"|worker group successfully finished"
    r"|(?P<script>\bTraining (?:is )?(?:completed?|finished|done)\b|\bFinished training\b)"
    r"(?!\?|[^\n]{0,40}\b(?:errors?|fail|unsuccess|abort))",
    re.IGNORECASE,
)
_OF_PART: Final = re.compile(
    r"\b(?:epoch|step|iter\w*|phase|stage|warm-?up|round|fold|until|before|when|once)\b", re.I
)
"""A part of the training is complete, and the next one follows."""
_GOING_ON: Final = re.compile(
    r"\bretrying\b|\bwill (?:be )?retr(?:y|ied)\b|\bskipp(?:ed|ing)\b|\bignor(?:ed|ing)\b"
    r"|\bfall(?:s|ing) back\b",
    re.IGNORECASE,
)
_NOTHING: Final = re.compile(r"Error: (?:0|[Nn]one|null|no errors?)\W*$")
_IGNORED: Final = "Exception ignored in"
_PROCESS: Final = re.compile(r"(?<![\w.-])[\w.-]{1,253}:\d{1,10}:(?=\d{1,10} )")
_CONNECTED: Final = re.compile(
    rf"(?P<process>{_PROCESS.pattern})[^\n]{{0,300}}? NCCL INFO [^\n]{{0,300}}Init COMPLETE"
)
_STACK: Final = 4_000
"""Characters before an exception in which the first line of its stack is looked for."""
_LONGEST_PART: Final = 400


def went_on_at(text: str) -> int:
    """Return where the job has gone on for some steps for the last time, -1 where it never has.

    Lines of the same step count once: each rank may print it.
    """
    steps: set[str] = set()
    for at, step in reversed(list(_steps(text))):
        steps.add(step)
        if len(steps) == _GOES_ON:
            return at
    return -1


def _steps(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each line of a step is, and its number; one a line, or long lines take long."""
    at = 0
    while (sign := _SIGN.search(text, at)) is not None:
        least = max(sign.start() - _BEFORE, at)  # what is before was looked at
        at = sign.end()
        begin = max(text.rfind("\n", least, sign.start()) + 1, least)
        if sign["serves"]:
            yield begin, str(begin)
            continue
        match = _STEP.search(text, begin, sign.start())
        step = sign["epoch"] or (match and (match["bar"] or match["step"]))
        if step:
            yield begin, step
            end = text.find("\n", at)
            at = len(text) if end < 0 else end


def completed_at(text: str) -> re.Match[str] | None:
    """Return the last line in which a program says that it is done, and after which no step is.

    A match of ``script`` may be a word of the script that started it, which prints it always.
    """
    last = None
    for match in _COMPLETED.finditer(text):
        begin = text.rfind("\n", 0, match.start()) + 1
        if match["script"] is None or not _OF_PART.search(text, begin, match.start()):
            last = match
    if last is not None and last[0].startswith('"train_runtime"') and _has_later(text, last):
        return None
    return None if last is None or went_on_at(text[last.end() :]) >= 0 else last


def _has_later(text: str, summary: re.Match[str]) -> bool:
    """Return whether the history that the Trainer of Hugging Face saves has steps after a summary.

    It may be one line, and its evaluations at the end are entries of the same step.
    """
    begin = max(text.rfind("{", 0, summary.start()), 0)
    own = _SAVED_STEP.search(text, begin, summary.start())
    return own is not None and any(
        int(later[1]) > int(own[1]) for later in _SAVED_STEP.finditer(text, summary.end())
    )


_SAVED_STEP: Final = re.compile(r'"step": ?(\d{1,12})')


def says_to_go_on(line: str) -> bool:
    """Return whether a line, or the one behind an error, says that the program goes on."""
    part = line[:_LONGEST_PART]
    return _GOING_ON.search(part) is not None or _NOTHING.search(part) is not None


def is_ignored(text: str, line: int) -> bool:
    """Return whether the stack above the line that begins here is one that Python ignores."""
    stack = text[max(line - _STACK, 0) : line]
    opened = stack.rfind(_IGNORED)
    if opened < 0:
        return False
    return all(
        not one.strip() or one.startswith("  ") or "Traceback (most" in one
        for one in stack[opened:].split("\n")[1:]
    )


def connected_at(text: str) -> Mapping[str, int]:
    """Return where each process last has a communicator of NCCL, by "host:process:"."""
    return {match["process"]: match.end() for match in _CONNECTED.finditer(text)}


def nccl_process(line: str) -> str:
    """Return the "host:process:" that NCCL puts before a line, "" without."""
    match = _PROCESS.search(line)
    return "" if match is None else match[0]
