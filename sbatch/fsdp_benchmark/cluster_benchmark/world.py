"""The ranks of a measurement: their hosts, and synchronised timing."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class World:
    """All ranks of a job, from the view of one of them. ``hosts`` has the host of every rank."""

    rank: int
    local_rank: int
    hosts: tuple[str, ...]
    device: torch.device
    backend: str

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.hosts)

    @property
    def host(self) -> str:
        """The host of this rank."""
        return self.hosts[self.rank]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Distinct hosts, in order of their first rank."""
        return tuple(dict.fromkeys(self.hosts))

    @property
    def leads(self) -> bool:
        """Whether this is the first rank of its host, which measures the host."""
        return self.hosts.index(self.host) == self.rank

    def ranks_of(self, host: str) -> tuple[int, ...]:
        """Return the ranks on a host, in order."""
        return tuple(rank for rank, name in enumerate(self.hosts) if name == host)

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks of every measurement between ranks of this world."""
        return ("cpu",) if self.device.type == "cpu" else ()

    def barrier(self) -> None:
        """Wait until every rank is here and every device is idle."""
        self.settle()
        if self.size > 1:
            dist.barrier()

    def settle(self) -> None:
        """Wait until this rank's device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Callable[[], object], *, warmup: int, repeats: int) -> list[float]:
        """Return the wall seconds of ``work`` on the slowest rank, once per repetition.

        All ranks start together, and a repetition ends when the device has finished: without
        that only the rate of launching would be measured.
        """
        samples = []
        for number in range(warmup + repeats):
            self.barrier()
            started = time.perf_counter()
            work()
            self.settle()
            elapsed = time.perf_counter() - started
            if number >= warmup:
                samples.append(elapsed)
        return self.slowest(samples)

    def slowest(self, samples: list[float]) -> list[float]:
        """Return the largest value over all ranks, element by element."""
        if self.size == 1:
            return samples
        held = torch.tensor(samples, dtype=torch.float64, device=self.device)
        dist.all_reduce(held, op=dist.ReduceOp.MAX)
        return [float(value) for value in held.cpu()]

    def gathered(self, value: Any) -> list[Any]:
        """Return the value of every rank, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


def join(device: str | None = None) -> World:
    """Join the job described in the environment by a launcher; without one, a world of one.

    ``device`` None means CUDA where it is there. Raises RuntimeError where there are more ranks
    on a host than devices.
    """
    rank, local = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
    size = int(os.environ.get("WORLD_SIZE", "1"))
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda":
        if local >= torch.cuda.device_count():
            raise RuntimeError(f"local rank {local}, but {torch.cuda.device_count()} CUDA devices")
        torch.cuda.set_device(local)
    chosen = torch.device(kind, local) if kind == "cuda" else torch.device("cpu")
    backend = "nccl" if kind == "cuda" else "gloo"
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    hosts: list[Any] = [name]
    if size > 1:
        dist.init_process_group(backend)
        hosts = [None] * size
        dist.all_gather_object(hosts, name)
    return World(rank, local, tuple(hosts), chosen, backend)


def leave() -> None:
    """Leave the process group of :func:`join`."""
    if dist.is_initialized():
        dist.destroy_process_group()
