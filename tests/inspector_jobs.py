"""Jobs whose records of NCCL Inspector follow from what their ranks do: faults that spread.

Hosts of ranks run steps: work of each rank, then collectives of communicators, one after another. A
collective begins when its last rank arrives, and all its ranks leave it together, so that a rank
that is late makes those late that waited with it, at whatever comes next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from inspector_lines import MIB, START_US, call
from msgspec import Struct

Fault = Literal["even", "rank", "node", "link", "adapter", "drop", "turns"]
FAULTS: Final[tuple[Fault, ...]] = ("even", "rank", "node", "link", "adapter", "drop", "turns")


class Job(Struct, frozen=True):
    """A job; times in µs, rates in bytes a µs.

    Attributes:
        begin: Share of the steps before the fault.
        strength: How late a rank is, as a share of the step; of a slow link, what is left of it.
    """

    fault: Fault
    hosts: int
    per_host: int
    step_us: float
    steps: int
    interval_s: float
    form: Literal["rings", "last", "unnamed"]
    ring: int
    jitter: float
    noise: float
    size: int
    begin: float
    strength: float
    who: int
    has_world: bool

    @property
    def ranks(self) -> int:
        return self.hosts * self.per_host

    @property
    def culprit(self) -> str | tuple[str, ...] | None:
        """What has to be named."""
        if self.fault == "rank":
            return str(self.who)
        if self.fault == "node":
            return f"node-{self.who // self.per_host}"
        # the last of three hosts has no pair, so that its adapter serves one group only
        is_alone = self.fault == "adapter" and self.who // self.per_host == self.hosts // 2 * 2
        if self.fault == "link" or is_alone:
            return tuple(map(str, self.line(self.who % self.per_host)))
        return str(self.who) if self.fault == "adapter" else None

    def line(self, place: int) -> list[int]:
        """Ranks with one place on all hosts."""
        return list(range(place, self.ranks, self.per_host))


def drawn(seed: int, fault: Fault | None = None) -> Job:
    """Return a job of a seed."""
    rng = np.random.default_rng(seed)
    hosts, per_host = int(rng.choice([2, 3, 4])), int(rng.choice([2, 4, 8]))
    kind = fault or FAULTS[seed % len(FAULTS)]
    form = rng.choice(["rings", "rings", "last", "unnamed"])
    step_us = float(rng.choice([60_000, 250_000, 800_000]))
    interval_s = float(rng.choice([1, 5, 10]))
    seconds = max(float(rng.choice([200, 400])), 40 * interval_s if form == "last" else 0)
    strength = rng.uniform(0.01, 0.1) if kind in ("rank", "node") else rng.uniform(0.2, 0.55)
    return Job(
        fault=kind,
        hosts=hosts,
        per_host=per_host,
        step_us=step_us,
        steps=max(int(seconds * 1e6 / step_us), 40),
        interval_s=interval_s,
        form=form,
        ring=int(rng.choice([1024, 24])),
        jitter=float(rng.choice([20, 60])),
        noise=float(rng.choice([0.01, 0.05, 0.1])),
        size=int(rng.choice([8, 64, 256])) * MIB,
        begin=0.45 if kind == "drop" else float(rng.choice([0, 0, 0.4])),
        strength=float(strength),
        who=int(rng.integers(hosts * per_host)),
        has_world=bool(rng.random() < 0.7) or kind in ("rank", "turns"),
    )


class _Writer:
    """The lines of all ranks."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.waiting: list[dict[tuple[str, str], list[dict[str, Any]]]] = [
            {} for _ in range(job.ranks)
        ]
        self.lines: list[list[str]] = [[] for _ in range(job.ranks)]
        self.numbers: dict[tuple[str, str], int] = {}

    def call(
        self, name: str, ident: str, members: list[int], operation: str, size: int, exec_us: Any
    ) -> None:
        number = self.numbers[ident, operation] = self.numbers.get((ident, operation), 0) + 1
        hosts = len({one // self.job.per_host for one in members})
        for place, rank in enumerate(members):
            perf = call(operation, number, size, round(float(exec_us[place])))
            header = {
                "id": ident,
                "comm_name": name,
                "rank": place,
                "n_ranks": len(members),
                "nnodes": hosts,
            }
            if self.job.form != "rings":
                del header["comm_name"]
            self.waiting[rank].setdefault((ident, operation), []).append(
                {"header": header, "coll_perf": perf}
            )

    def dump(self, now: float) -> None:
        for rank, waiting in enumerate(self.waiting):
            stamp = START_US + round(now)
            last: dict[str, dict[str, Any]] = {}
            kept = []
            for (ident, _), found in waiting.items():
                kept += found[-self.job.ring :]
                last[ident] = found[-1]
            for one in last.values() if self.job.form == "last" else kept:
                stamp += 3
                metadata = {
                    "inspector_output_format_version": "v4.0",
                    "git_rev": "",
                    "rec_mechanism": "nccl_profiler_interface",
                    "dump_timestamp_us": stamp,
                    "hostname": f"node-{rank // self.job.per_host}",
                    "pid": 40_000 + rank,
                }
                line = {
                    "header": one["header"],
                    "metadata": metadata,
                    "coll_perf": one["coll_perf"],
                }
                self.lines[rank].append(json.dumps(line, separators=(",", ":")) + "\n")
            waiting.clear()


def write(folder: Path, job: Job, seed: int) -> None:
    """Write the logs of a job."""
    rng, writer = np.random.default_rng((seed, 7)), _Writer(job)
    now, dump = np.zeros(job.ranks), job.interval_s * 1e6
    for step in range(job.steps):
        is_on = step >= job.begin * job.steps
        now += _work(job, rng, is_on)
        for name, ident, members, operation, size in _calls(job):
            at = now[members]
            transfer = _transfer(job, rng, name, members, operation, size, is_on)
            end = float(at.max()) + transfer
            writer.call(name, ident, members, operation, size, end - at)
            now[members] = end + rng.exponential(job.jitter / 4, len(members))
        if now.max() >= dump:
            writer.dump(float(now.max()))
            dump += job.interval_s * 1e6
            now += 1e-9
    folder.mkdir(parents=True, exist_ok=True)
    for rank, lines in enumerate(writer.lines):
        (folder / f"node-{rank // job.per_host}-pid{40_000 + rank}.log").write_text("".join(lines))


def _work(job: Job, rng: np.random.Generator, is_on: bool) -> Any:
    work = job.step_us * 0.7 + rng.exponential(job.jitter, job.ranks)
    late = job.strength * job.step_us
    if rng.random() < 0.01:  # a hiccup of somebody
        work[rng.integers(job.ranks)] += rng.uniform(0.05, 0.5) * job.step_us
    if is_on and job.fault == "rank":
        work[job.who] += late * rng.uniform(0.8, 1.2)
    elif is_on and job.fault == "node":
        first = job.who // job.per_host * job.per_host
        work[first : first + job.per_host] += late * rng.uniform(0.8, 1.2, job.per_host)
    elif job.fault == "turns":
        work[rng.integers(job.ranks)] += 0.05 * job.step_us
    return work


def _calls(job: Job) -> Iterator[tuple[str, str, list[int], str, int]]:
    for _ in range(2):
        for host in range(job.hosts):
            members = list(range(host * job.per_host, (host + 1) * job.per_host))
            yield "tp", f"0x1{host:013x}", members, "AllReduce", job.size // 4
    if job.fault == "adapter":  # pairs of hosts, in another cut than the lines
        for place in range(job.per_host):
            line = job.line(place)
            for pair in range(job.hosts // 2):
                beside = job.line((place + 1) % job.per_host)
                members = [line[2 * pair], beside[2 * pair + 1]]
                yield "ep", f"0x4{place * 16 + pair:013x}", members, "AllGather", job.size // 8
    for place in range(job.per_host):
        yield "dp", f"0x2{place:013x}", job.line(place), "ReduceScatter", job.size // 8
    if job.has_world:
        yield "world", f"0x3{0:013x}", list(range(job.ranks)), "AllReduce", job.size // 16


def _transfer(
    job: Job,
    rng: np.random.Generator,
    name: str,
    members: list[int],
    operation: str,
    size: int,
    is_on: bool,
) -> float:
    n = len(members)
    factor = 2 * (n - 1) / n if operation == "AllReduce" else n - 1
    rate = 150e3 if name == "tp" else 20e3
    if is_on and name != "tp":
        is_hit = (
            (
                job.fault == "link"
                and name == "dp"
                and job.who in job.line(members[0] % job.per_host)
            )
            or (job.fault == "adapter" and job.who in members and name != "world")
            or job.fault == "drop"
        )
        rate *= job.strength if is_hit else 1
    return size * factor / rate * float(rng.lognormal(0, job.noise)) + 20
