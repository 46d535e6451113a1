"""Logs as the watchdogs of PyTorch 2.0 to 2.9 print them, of ranks in a known state."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

VERSIONS = ("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.8", "2.9")
NUMBERED = VERSIONS[2:]
"""Those that print the last collectives of a group."""


class Said(Struct, frozen=True):
    """What one rank prints of one group; without ``timed_out`` its answer to another's signal."""

    rank: int
    enqueued: int
    completed: int
    timed_out: int | None = None
    operation: str = "ALLREDUCE"
    numel: int = 4096
    local: int | None = None
    group: str = "0"
    name: str = "default_pg"
    started: int | None = None

    @property
    def in_group(self) -> int:
        return self.rank if self.local is None else self.local


def lines(version: str, one: Said, *, prefix: bool = True, at: int = 0) -> list[str]:
    """The lines of one rank."""
    stamp = "" if version < "2.4" else f"1218 20:27:{21 + at % 30:02}.426415540"
    head = f"[E{stamp} ProcessGroupNCCL.cpp:629] "
    head = f"[rank{one.rank}]:{head}" if prefix and version >= "2.2" else head
    group = {
        "2.0": f"[Rank {one.in_group}]",
        "2.1": f"[Rank {one.in_group}]",
        "2.2": f"[PG {one.group} Rank {one.in_group}]",
        "2.3": f"[PG {one.group} ({one.name}) Rank {one.in_group}]",
    }.get(version, f"[PG ID {one.group} PG GUID {one.group}({one.name}) Rank {one.in_group}]")
    status = f"last enqueued NCCL work: {one.enqueued}, last completed NCCL work: {one.completed}."
    found = []
    if one.timed_out is None:
        if version >= "2.4":
            found.append(
                f"{head}{group} Received a dump signal due to a collective timeout from  rank "
                "0 and we will try our best to dump the debug info. "
                f"Last{status[4:]}This is most likely"
            )
        elif version >= "2.2":
            found.append(
                f"{head}{group} Received a global timeout from another rank. Last{status[4:]}"
            )
        return found
    sizes = f"NumelIn={one.numel}, NumelOut={one.numel}, " if version >= "2.1" else ""
    found.append(
        f"{head}[Rank {one.in_group}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={one.timed_out}, OpType={one.operation}, {sizes}Timeout(ms)=600000) ran for "
        "600081 milliseconds before timing out."
    )
    started = "" if one.started is None else f"last started work: {one.started}, "
    if version >= "2.6":
        found.append(
            f"{head}{group}  failure detected by watchdog at work sequence id: {one.timed_out} PG "
            f"status: last enqueued work: {one.enqueued}, {started}last completed work: "
            f"{one.completed}"
        )
        found.append(f"{head}Stack trace of the failed collective not found, potentially because "
                     "FlightRecorder is disabled.")  # fmt: skip
    elif version >= "2.2":
        what = (
            "Timeout at NCCL"
            if version < "2.5"
            else "Exception (either an error or timeout) detected by watchdog at"
        )
        found.append(f"{head}{group} {what} work: {one.timed_out}, {status}")
    found.append(
        f"{head}{group} Process group watchdog thread terminated with exception: "
        f"{found[0][len(head) :]}"
    )
    return found


def log(version: str, said: Sequence[Said], *, prefix: bool = True) -> str:
    """A log of all ranks, after lines of training."""
    text = [
        f"iteration {step} / 100 | elapsed time per iteration (ms): 2100 | lm loss: 1.0 |"
        for step in range(10, 30, 10)
    ]
    for at, one in enumerate(said):
        text += lines(version, one, prefix=prefix, at=at)
    text.append("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: x")
    return "\n".join(text) + "\n"


def waiting(
    ranks: Sequence[int],
    at: int = 100,
    *,
    enqueued: int | None = None,
    operation: str = "ALLREDUCE",
    group: str = "0",
    name: str = "default_pg",
    base: int | None = None,
    stride: int = 1,
    numel: int = 4096,
) -> list[Said]:
    """Ranks that wait in one collective; ``base`` is the first rank of a group of some ranks."""
    return [
        Said(
            rank,
            at if enqueued is None else enqueued,
            at - 1 if at > 1 else -1,
            at,
            operation,
            numel,
            None if base is None else (rank - base) // stride,
            group,
            name,
        )
        for rank in ranks
    ]
