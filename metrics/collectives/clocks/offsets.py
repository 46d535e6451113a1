"""Solve for one value per rank from differences known only inside groups.

Weighted least squares over the Laplacian of the groups; used for clock offsets and drifts. Of many
ranks the equations of the groups are solved, see `GroupEquations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.collectives.clocks.group_equations import GroupEquations
from ccltui.parsers.array_types import F64, I64

LARGE: Final = 256
"""Ranks from which on the time of dense equations, their number cubed, is felt."""


class Observation(Struct, frozen=True):
    """Values of the members of a group, correct up to a constant of that group."""

    members: I64
    values: F64
    weight: float


def components(links: Sequence[I64], count: int) -> I64:
    """Return the lowest index that each of ``count`` nodes is linked to, or its own; int64."""
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
    """Return the weighted least-squares values over all groups, float64 [count].

    The lowest index of every component is 0, as are nodes without a group.
    """
    right = np.zeros(count)
    pairs = _pairs(observations)
    if pairs is not None:
        values = np.stack([one.values for one in observations])
        weight = np.array([one.weight for one in observations])[:, np.newaxis]
        np.add.at(right, pairs, weight * (values - values.mean(axis=1, keepdims=True)))
    else:
        for one in observations:
            right[one.members] += one.weight * (one.values - one.values.mean())
    result = np.zeros(count)
    if (groups := _by_groups(observations, count)) is not None:
        result[groups.free] = groups.solve(right[groups.free])
        return result
    matrix, free = _normal_equations(observations, count)
    if len(free):
        result[free] = np.linalg.solve(matrix, right[free])
    return result


def standard_errors(observations: Sequence[Observation], count: int) -> F64:
    """Return the standard errors of `solve`, given inverse variances as weights; float64."""
    result = np.zeros(count)
    if (groups := _by_groups(observations, count)) is not None:
        result[groups.free] = np.sqrt(np.maximum(groups.variances(), 0))
        return result
    matrix, free = _normal_equations(observations, count)
    if len(free):
        result[free] = np.sqrt(np.maximum(np.diag(np.linalg.inv(matrix)), 0))
    return result


def _by_groups(observations: Sequence[Observation], count: int) -> GroupEquations | None:
    """Return the equations of the groups of many ranks, None where those of the ranks are fewer."""
    if count < LARGE or 2 * len(observations) > count:
        return None
    members = [one.members for one in observations]
    roots = components(members, count)
    weights = np.array([one.weight for one in observations])
    return GroupEquations.of(members, weights, np.flatnonzero(roots != np.arange(count)), count)


def _normal_equations(observations: Sequence[Observation], count: int) -> tuple[F64, I64]:
    """Return the matrix over the indices that are not the lowest of their component, and these."""
    laplacian = np.zeros((count, count))
    pairs = _pairs(observations)
    if pairs is not None:
        half = 0.5 * np.array([one.weight for one in observations])
        ones, others = pairs.T
        rows = np.stack([ones, ones, others, others], axis=1)
        columns = np.stack([ones, others, ones, others], axis=1)
        np.add.at(laplacian, (rows, columns), np.stack([half, -half, -half, half], axis=1))
        distinct = distinct_values(ones * count + others)
        links: Sequence[I64] = list(np.stack(np.divmod(distinct, count), axis=1))
    else:
        for one in observations:
            size = len(one.members)
            laplacian[np.ix_(one.members, one.members)] += one.weight * (np.eye(size) - 1 / size)
        links = [one.members for one in observations]
    roots = components(links, count)
    free = np.flatnonzero(roots != np.arange(count))
    return laplacian[np.ix_(free, free)], free


def _pairs(observations: Sequence[Observation]) -> I64 | None:
    """Return the members [n, 2] where all observations are of two, which are added at once."""
    if not observations or any(len(one.members) != 2 for one in observations):
        return None
    return np.stack([one.members for one in observations])
