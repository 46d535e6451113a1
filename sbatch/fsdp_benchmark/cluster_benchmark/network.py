"""Measure the network between hosts: latency and bandwidth by ping-pong, and all-to-all.

Ranks 0 and 1 are mostly on one host, where a ping-pong measures no network. Here both ends are
always on different hosts, and the clock stops after the devices have finished.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Final

import torch
import torch.distributed as dist

from cluster_benchmark.row import GB, Row
from cluster_benchmark.world import World

CATEGORY: Final = "Inter-Node Network"
_LATENCY_REPEATS: Final = 200
_REPEATS: Final = 10
_WARMUP: Final = 3


def measure(world: World, message_bytes: int) -> list[Row]:
    """Return the rows of the network; without values where all ranks share a host."""
    kind = "GPUs" if world.device.type == "cuda" else "ranks"
    shared = {"ranks": world.size, "marks": world.marks}
    latency = Row("network_latency", CATEGORY, "Latency (ping-pong)", None, "ms", **shared)  # type: ignore[arg-type]
    bandwidth = replace(
        latency,
        id="network_bandwidth",
        test=f"Bandwidth (ping-pong, {world.size} {kind})",
        unit="GB/s",
        unit_bytes=GB,
    )
    exchange = replace(
        bandwidth, id="network_alltoall", test=f"All-to-all bandwidth ({world.size} {kind})"
    )
    if len(world.nodes) < 2:
        reason = f"all ranks are on {world.host}: nothing goes over a network"
        return [row.refused(reason) for row in (latency, bandwidth, exchange)]
    return [
        _latency(world, latency),
        _bandwidth(world, bandwidth, message_bytes),
        _exchange(world, exchange, message_bytes),
    ]


def _latency(world: World, row: Row) -> Row:
    """Measure half a round trip of 8 bytes between the first rank of each host and of the first."""
    samples = []
    first = world.ranks_of(world.nodes[0])[0]
    for host in world.nodes[1:]:
        pair = (first, world.ranks_of(host)[0])
        seconds = _round_trips(world, (pair,), 8, _LATENCY_REPEATS)
        samples.append(statistics.median(seconds) / 2 * 1e3)
    peers = len(world.nodes) - 1
    method = (
        f"half a round trip of 8 bytes, median of {_LATENCY_REPEATS}; first rank of "
        f"{world.nodes[0]} with that of each of {peers} other hosts"
    )
    return replace(row, method=method, ranks=2).measured(samples)


def _bandwidth(world: World, row: Row, message_bytes: int) -> Row:
    """Measure bytes per second in one direction, with all ranks of two hosts in pairs."""
    samples, pairs_of_host = [], 0
    for host in world.nodes[1:]:
        pairs = tuple(zip(world.ranks_of(world.nodes[0]), world.ranks_of(host), strict=False))
        pairs_of_host = max(pairs_of_host, len(pairs))
        seconds = statistics.median(_round_trips(world, pairs, message_bytes, _REPEATS))
        samples.append(len(pairs) * message_bytes / (seconds / 2) / GB)
    method = (
        f"one direction, {message_bytes} bytes a message, {pairs_of_host} pairs of ranks at once "
        f"between {world.nodes[0]} and each other host; median of {_REPEATS}, slowest rank"
    )
    return replace(row, method=method).measured(samples)


def _round_trips(
    world: World, pairs: tuple[tuple[int, int], ...], message_bytes: int, repeats: int
) -> list[float]:
    """Return the seconds of a round trip of all ``pairs`` at once; other ranks wait."""
    message = torch.zeros(message_bytes, dtype=torch.uint8, device=world.device)
    there = dict(pairs)
    back = {second: first for first, second in pairs}

    def travel() -> None:
        if world.rank in there:
            dist.send(message, there[world.rank])
            dist.recv(message, there[world.rank])
        elif world.rank in back:
            dist.recv(message, back[world.rank])
            dist.send(message, back[world.rank])

    return world.seconds(travel, warmup=_WARMUP, repeats=repeats)


def _exchange(world: World, row: Row, message_bytes: int) -> Row:
    """Measure bytes per second between hosts while every rank sends to every rank."""
    part = max(message_bytes // world.size, 8)
    sent = torch.zeros(part * world.size, dtype=torch.uint8, device=world.device)
    received = torch.empty_like(sent)
    seconds = world.seconds(
        lambda: dist.all_to_all_single(received, sent), warmup=_WARMUP, repeats=_REPEATS
    )
    crossing = sum(one != other for one in world.hosts for other in world.hosts) * part
    method = (
        f"bytes between ranks of different hosts, {part} bytes from each rank to each; "
        f"synchronised, slowest rank, median of {_REPEATS}"
    )
    return replace(row, method=method).measured([crossing / one / GB for one in seconds])
