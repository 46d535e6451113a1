"""What ended a job, by the lines that programs, launchers, NCCL, Slurm and the kernel print.

Of all that a log says the cause that is nearest to the start of the failure is stated: connections
break on the ranks that are left where one of them runs out of memory.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.metrics.confidence import Level, Sure
from ccltui.metrics.findings.finding import Finding, Where
from ccltui.metrics.hangs.find_hang import LOGS
from ccltui.metrics.hangs.hang import few_ranks
from ccltui.metrics.view.words import sentence
from ccltui.parsers.discovery.captures import rank_in_name
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.numbers import counted, time_text
from ccltui.parsers.runs.failure_lines import CAUSES, LONGEST_NAME, Cause, Failure, read_failures
from ccltui.parsers.text.file_sample import read_bounded

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile

_MOST_LOGS: Final = 4096
_MOST_BYTES: Final = 1 << 30
"""Logs beyond it are left out, the largest first."""
_MOST_BESIDE: Final = 1 << 26
"""The same where traces are there, whose answer comes first: a log takes up to 0.3 s a megabyte."""
_SMALL_RANK: Final = 1 << 20  # larger numbers of ranks are a misreading
FOLLOWS: Final[frozenset[Cause]] = frozenset(
    {"signal", "exit_code", "peer_gone", "cancelled", "link", "connect", "other_error", "warning"}
)
"""Causes that may follow from the end of another process."""


def failure_finding(view: View) -> Finding | None:
    """Return what ended the job by its logs, None where they do not say that it failed."""
    found = failures_of(view)
    return None if not found else _finding(found)


def failure_beside(view: View) -> Finding | None:
    """Return what ended a job whose traces are there, None where its logs do not surely say so."""
    found = failures_of(view, _MOST_BESIDE)
    return _finding(found) if found and _surety(found[0].cause) == "high" else None


def failures_of(view: View, most_bytes: int = _MOST_BYTES) -> tuple[Failure, ...]:
    """Return the lines of the cause nearest to the start of the failure, () without any."""
    files = [
        one
        for one in view.job.discovery.files
        if one.format in LOGS and one.duplicate_of is None and one.problem is None
    ]
    held = 0
    kept = set()
    for file in sorted(files, key=lambda one: one.size_bytes)[:_MOST_LOGS]:
        held += file.size_bytes
        if held <= most_bytes:
            kept.add(file.path)
    return _first_cause(tuple(file for file in files if file.path in kept))


@lru_cache(maxsize=16)
def _first_cause(files: tuple[FoundFile, ...]) -> tuple[Failure, ...]:
    found: list[Failure] = []
    for file in files:
        try:
            with contained(file.path):
                text = read_bounded(Path(file.real_path), shown=file.path)
                found += read_failures(text, file.path, rank_in_name(file.path))
        except TraceError:  # stated by doctor
            continue
    first = min((CAUSES[one.cause] for one in found), default=None)
    return tuple(one for one in found if CAUSES[one.cause] == first)


def _finding(found: Sequence[Failure]) -> Finding:
    cause = found[0].cause
    first = max(found, key=_detail)
    ranks = sorted({rank for one in found for rank in one.ranks if rank < _SMALL_RANK})
    labels = tuple(str(rank) for rank in ranks)
    who = _who(first, labels)
    named = labels if cause in _NAMES else ()
    others = sorted({one.path for one in found} - {first.path})
    more = [_more(first)]
    more.append(f"the line ({first.path}): {first.line}")
    if others:
        more.append(f"{counted(len(others), 'other log')} have such lines too")
    return Finding(
        kind="failure",
        text=sentence(_text(cause, who, first, found, len(labels))),
        more=" ".join(map(sentence, filter(None, more))),
        where=Where(ranks=named, host=first.host or None),
        saves_why="the job ended, and a log does not show how much time could be saved",
        sure=Sure(what=_surety(cause), who=_who_sure(first, named)),
        do=_do(first),
    )


def _detail(one: Failure) -> tuple[bool, bool, bool, int]:
    """Return how much a line tells; of lines that tell as much the first of its log counts."""
    return bool(one.ranks or one.local_rank is not None), bool(one.peer), bool(one.what), -one.at


def _surety(cause: Cause) -> Level:
    return "medium" if cause in FOLLOWS or cause in ("exception", "mismatch") else "high"


def _who_sure(first: Failure, named: tuple[str, ...]) -> Level:
    if first.is_inferred:
        return "low"
    is_told = named or (first.host and first.cause in ("link", "connect"))
    return _surety(first.cause) if is_told else "unknown"


_NAMES: Final[tuple[Cause, ...]] = (
    *("host_memory", "disk", "device_memory", "device_error", "same_rank", "same_device"),
    *("stalled", "exception", "signal", "exit_code"),
)
"""Causes whose line is of the rank that is at fault, not of one that notices it."""


def _who(first: Failure, labels: tuple[str, ...]) -> str:
    if labels:
        return few_ranks(labels)
    if first.local_rank is not None:
        return f"local rank {first.local_rank}"
    device = f" (GPU {first.device})" if first.device and first.cause != "device_lost" else ""
    return f"host {first.host}{device}" if first.host else "a process"


def _words(first: Failure) -> dict[str, str]:
    numbers = first.numbers
    return {
        "what": first.what or "an error",
        "peer": first.peer or "another process",
        "device": first.device or "of the job",
        "limit": first.limit,
        "seconds": time_text(float(numbers.get("ms", 0))),
        "signal": _signal(numbers.get("signal", 9)),
        **{name: f"{value:,}" for name, value in numbers.items() if name not in ("signal", "ms")},
    }


def _signal(number: int) -> str:
    name = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}.get(
        number
    )
    return f"signal {number}" + (f" ({name})" if name else "")


_TEXTS: Final[Mapping[Cause, str]] = {
    "device_lost": "the driver reports an error of GPU {device}: {what} (Xid {xid})",
    "node_failure": "Slurm ended the job because a node failed",
    "host_memory": "{who} ran out of memory of the host, and {were} killed",
    "disk": "{who} could not write: {what}",
    "device_memory": "{who} ran out of device memory",
    "device_error": "{who} ended with an error of the device: {what}",
    "same_rank": "two processes both call themselves rank {number} of {world}",
    "same_device": "ranks {number} and {other} use the same GPU ({device})",
    "port": "{who} could not listen: the address is already in use",
    "mismatch": "NCCL finds that {who} call another collective than the ranks beside {them}",
    "exception": "{who} raised {what}",
    "failed_test": "nccl-tests did not run: {what}",
    "link": "{who} lost the link to {peer}: {what}",
    "connect": "{who} cannot connect to {peer}: {what}",
    "warning": "{who}: NCCL warns: {what}",
    "signal": "{who} {were} killed by {signal}",
    "time_limit": "Slurm ended the job at its time limit",
    "preempted": "Slurm ended the job for another one (preemption)",
    "exit_code": "{who} ended with exit code {code}",
    "peer_gone": "{who} lost the connection to {peer}, which ended first or is not reached",
    "other_error": "{who} ended with an error of communication: {what}",
    "cancelled": "the job was cancelled",
}


def _text(cause: Cause, who: str, first: Failure, found: Sequence[Failure], count: int) -> str:
    if cause == "stalled":
        return _stalled(who, found, count)
    if cause == "start":
        return _start(found)
    words = _words(first)
    if cause == "link" and "status" in first.numbers:
        words["what"] = f"completion error {first.numbers['status']} of InfiniBand"
    if cause == "connect" and not first.peer and first.what.startswith(("Gloo", "no ")):
        return f"{who}: {first.what}"
    if cause == "peer_gone" and "ms" in first.numbers:
        return f"{who} waited {words['seconds']} for a {first.what} of gloo and gave up"
    several = count > 1
    words |= {"who": who, "were": "were" if several else "was", "them": "them" if several else "it"}
    return _TEXTS[cause].format(**words)


def _stalled(who: str, found: Sequence[Failure], count: int) -> str:
    names = list(dict.fromkeys(one.what for one in found))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    if not count:
        return f"ranks wait for others that did not submit {_short(names[0])}{more}"
    has = "has" if count == 1 else "have"
    return f"{who} {has} not submitted what others wait for: {_short(names[0])}{more}"


def _short(name: str) -> str:
    """Return the last part of the name of an operator."""
    return name if len(name) <= LONGEST_NAME else name.rpartition("/")[2][:LONGEST_NAME]


def _start(found: Sequence[Failure]) -> str:
    """Say how many ranks came to the start of a process group."""
    last = max(found, key=lambda one: one.numbers["count"])
    count, world = last.numbers["count"], last.numbers["world"]
    limit = f" (limit {last.limit})" if last.limit else ""
    if count > world:
        return (
            f"{counted(count, 'process', 'processes')} came to a start of {world:,} ranks: others "
            "use the same address, or those of a start before did"
        )
    absent = counted(world - count, "rank")
    if count == world:
        return f"the start of a process group of {world:,} ranks did not end in time{limit}"
    came = f"{count:,} of {world:,} ranks came to the start of a process group"
    return f"{came}, {absent} did not{limit}"


def _more(first: Failure) -> str:
    if first.cause == "signal":
        return _OF_SIGNAL.get(first.numbers.get("signal", 9), "")
    return _MORE.get(first.cause, "")


_OF_SIGNAL: Final = {
    6: "SIGABRT follows from an error of its own: a time-out of its watchdog, or one in C++",
    7: "SIGBUS is most often shared memory (/dev/shm) that is full",
    9: "SIGKILL without another message is most often the memory of the host",
    11: "SIGSEGV is an error in native code: an extension, a driver, or libraries that do not fit",
}
_MORE: Final[Mapping[Cause, str]] = {
    "device_lost": "it is a fault of the device, its memory, its slot or its power",
    "device_error": "the call that reports it comes after the kernel that caused it",
    "link": "the link, a port or a card failed, or the process at the other end was gone before",
    "exit_code": "why is in the lines that this process printed before",
    "peer_gone": "that process, or the network between, is the cause, not the one that prints this",
}
_DO: Final[Mapping[Cause, str]] = {
    "device_lost": "Take the host out of the job, and look at the device: nvidia-smi -q, dmesg; "
    "reset or replace it.",
    "node_failure": "Leave the node out (--exclude), and look at its log: sacct -j JOB "
    "--format=NodeList,State, dmesg.",
    "host_memory": "Compare the peak with the limit: sacct -j JOB --format=MaxRSS,ReqMem. Use "
    "fewer or smaller workers of the data loader, load the checkpoint on one rank at a time, or "
    "ask for more (--mem).",
    "disk": "Free space or quota where checkpoints and logs go (df -h, quota); for /dev/shm raise "
    "the shared memory of the container (--shm-size).",
    "device_memory": "Use a smaller micro-batch, recomputation of activations or more sharding; "
    "where much is reserved and not allocated, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. "
    "torch.cuda.memory._dump_snapshot shows what holds it, and ccltui reads that.",
    "device_error": "Run with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer to see which "
    "kernel it is; if it is always the same host and device, test the device (nvidia-smi -q, "
    "dmesg, dcgmi diag -r 3).",
    "same_rank": "Give each process a rank of its own: compare RANK and WORLD_SIZE of all "
    "processes, and the number of tasks of srun with what the program starts itself.",
    "same_device": "Give each process a GPU of its own: torch.cuda.set_device(LOCAL_RANK), and as "
    "many processes on a host as it has GPUs.",
    "port": "End what is left of a job before, or choose another MASTER_PORT.",
    "mismatch": "Make all ranks call the same collectives in the same order and size: record the "
    "calls with NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=COLL, or with PyTorch's flight recorder.",
    "stalled": "Look what the missing ranks do (py-spy dump), and at calls under a condition that "
    "depends on the rank.",
    "exception": "Look at what it raised: time-outs and lost connections of others follow from it.",
    "failed_test": "Run it again with NCCL_DEBUG=INFO: the warning before tells what failed.",
    "link": "Look at port and cable (ibstat, perfquery, dmesg of both hosts), and test the two "
    "hosts with ib_write_bw and nccl-tests; first rule out that the other process had ended.",
    "connect": "Choose the network: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name an interface "
    "that all hosts reach; look for firewalls and for addresses of containers (docker0, veth).",
    "start": "Look at the ranks that are not there: whether their processes run, and reach "
    "MASTER_ADDR:MASTER_PORT; whether all are started with the same WORLD_SIZE.",
    "warning": "Read the warning with the lines around it (NCCL_DEBUG=INFO shows them), and try "
    "each transport: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1 or NCCL_IB_DISABLE=1 in turn.",
    "signal": "Look in the log of the kernel of the host for the process (dmesg, sacct -j JOB "
    "--format=State,MaxRSS); for SIGSEGV take a stack (ulimit -c unlimited, faulthandler).",
    "time_limit": "Ask for more time (--time), or save a checkpoint before the limit "
    "(--signal=B:USR1@300).",
    "preempted": "Start it again from its last checkpoint (--requeue).",
    "exit_code": "Look at the log of that process for its exception; torchrun --tee 3 --log-dir "
    "keeps the output of each rank.",
    "other_error": "Run it again with NCCL_DEBUG=INFO, and look at the logs of the other ranks: "
    "which of them ended first.",
    "peer_gone": "Look at the log of the other process first: what it printed last.",
    "cancelled": "If nobody ended it by hand, look at the lines before, and at sacct -j JOB.",
}


def _do(first: Failure) -> str:
    if first.cause == "warning" and "ibv_" in first.what and "memory" in first.what:
        return "Raise the limit of locked memory: ulimit -l unlimited, or --ulimit memlock=-1."
    if first.numbers.get("signal") == signal.SIGABRT:
        return _DO["exit_code"]
    if first.cause == "connect" and first.peer.lower().startswith("fe80"):
        return (
            "The address is of one link only (fe80): set NCCL_SOCKET_FAMILY=AF_INET, or name an "
            "interface with NCCL_SOCKET_IFNAME that all hosts reach."
        )
    return _DO[first.cause]
