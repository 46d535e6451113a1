"""One value per rank from differences that are known only inside groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.parsers.array_types import F64, I64


@dataclass(frozen=True, slots=True)
class Observation:
    """Values of the members of a group, right up to a constant of that group."""

    members: I64
    values: F64
    weight: float


def components(links: Sequence[I64], count: int) -> I64:
    """The lowest index that each of ``count`` nodes is linked to, itself included; int64."""
    parent = list(range(count))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for link in links:
        lowest = min((root(node) for node in link.tolist()), default=0)
        for node in link.tolist():
            parent[root(node)] = lowest
    return np.array([root(node) for node in range(count)], np.int64)


def solve(observations: Sequence[Observation], count: int) -> F64:
    """Weighted least squares over all groups, float64 [count].

    The lowest index of every component is 0, and so is what no group links.
    """
    right = np.zeros(count)
    for one in observations:
        right[one.members] += one.weight * (one.values - one.values.mean())
    matrix, free = _normal_equations(observations, count)
    result = np.zeros(count)
    if len(free):
        result[free] = np.linalg.solve(matrix, right[free])
    return result


def standard_errors(observations: Sequence[Observation], count: int) -> F64:
    """Standard errors of what `solve` finds, where weights are inverse variances; float64."""
    matrix, free = _normal_equations(observations, count)
    result = np.zeros(count)
    if len(free):
        result[free] = np.sqrt(np.maximum(np.diag(np.linalg.inv(matrix)), 0))
    return result


def _normal_equations(observations: Sequence[Observation], count: int) -> tuple[F64, I64]:
    """The matrix over the indices that are not the lowest of their component."""
    laplacian = np.zeros((count, count))
    for one in observations:
        size = len(one.members)
        laplacian[np.ix_(one.members, one.members)] += one.weight * (np.eye(size) - 1 / size)
    roots = components([one.members for one in observations], count)
    free = np.flatnonzero(roots != np.arange(count))
    return laplacian[np.ix_(free, free)], free
