"""Estimate the clock offset of each rank from the ends of matched collectives.

    d[r, k] = end[r, k] - median over q of end[q, k]      deviation of rank r at collective k, ns
    offset[r] = median over k of d[r, k], minus that of the reference
    drift[r] = Theil-Sen slope of d[r, k] over time, ns per s; 0 where its 99 % interval includes 0,
               and where it is larger than that of any oscillator
    residual[r, k] = abs(d[r, k] - time[k] * drift[r] - offset[r] - median over members of the same)
    corrected = time - offset - drift * (corrected - reference time)

A collective in which every rank needs every other ends on all ranks nearly at once, so the
difference of the ends is that of the clocks. Medians of differences inside groups are combined
over all groups by weighted least squares. The reference is the lowest rank of each component of
ranks linked by common groups or hosts. Ranks of one host share a clock and are pooled. The p95 of
the residuals is the error bar of every number from starts.

Solve for one value per rank from differences known only inside groups.

Weighted least squares over the Laplacian of the groups; used for clock offsets and drifts. Of many
ranks the equations of the groups are solved, see `GroupEquations`.

Solve the equations of ranks by those of their groups, where groups are fewer.

The normal equations of the ranks are ``L = D - U W U^T``: D is diagonal, U has a row for each rank
and a column for each group (1 for a member), and W is diagonal. By the identity of Woodbury

    L^-1 = D^-1 + D^-1 U M^-1 U^T D^-1        with  M = W^-1 - U^T D^-1 U

only M, a matrix of the groups, is solved: 1,024 ranks in 193 groups take 14 instead of 363 CPU-ms,
and 16,384 ranks no matrix of 2 GiB. The sparse solvers of scipy, which is no dependency, do not
give the variances.

Difference of the clocks of two ranks, from the ends of transfers between them.

    f = median(end of the receive - end of the send) of transfers in one direction
    b = the same in the other direction
    clock difference = (f - b) / 2, one-way part of the ends = (f + b) / 2

A transfer ends on both ranks nearly at once, the receiver a little later. What lies between is the
same in both directions and cancels.

Calls that only their order lines up are matched a second time with the offsets known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.by_column import together
from ccltui.metrics.arrays.reductions import (
    columns_of,
    distinct_values,
    median_along,
    quantile,
    rows_by_value,
    unique_inverse,
)
from ccltui.metrics.arrays.typical import Z_99
from ccltui.metrics.collectives.clocks.clock_model import (
    MAX_DRIFT_PPB,
    MAX_RESIDUAL_NS,
    Clock,
    ClockModel,
)
from ccltui.metrics.collectives.matching.align_calls import ClockDifference
from ccltui.metrics.collectives.matching.match import (
    LOW,
    MEDIUM,
    GroupMatch,
    Matches,
    MatchInput,
    Pairs,
    gather,
    match_calls,
    taking_part,
)
from ccltui.metrics.collectives.matching.validity import (
    ONE_CLOCK_NS,
    ORDER,
    ComparedEnds,
    Deviations,
    end_deviation,
    evenly,
    exchange,
    fully_dependent,
    nearest_rank,
    nearest_rank_of,
)
from ccltui.metrics.facts import fact
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.columns import MISSING


class GroupEquations(Struct, frozen=True):
    """Memberships of the ranks to solve for, ascending by rank.

    ``free`` [k] are these ranks, ``member`` [n] places in it, ``group`` [n] the group of each
    membership; ``diagonal`` is D, float64 [k], and ``matrix`` is M, float64 [groups, groups].
    """

    free: I64
    member: I64
    group: I64
    diagonal: F64
    matrix: F64

    @classmethod
    def of(
        cls, groups: Sequence[I64], weights: F64, free: I64, count: int
    ) -> GroupEquations | None:
        """Return the equations; None without a rank to solve for.

        Args:
            groups: Members of each group.
            weights: Weight of each group, float64.
            free: Ranks to solve for, ascending; the value of all others is 0.
            count: Number of all ranks.
        """
        if not len(free):
            return None
        sizes = np.array([len(one) for one in groups])
        place = np.full(count, -1, np.int64)
        place[free] = np.arange(len(free))
        member = place[np.concatenate(groups)]
        group = np.repeat(np.arange(len(groups)), sizes)
        order = np.argsort(member, kind="stable")
        order = order[member[order] >= 0]
        member, group = member[order], group[order]
        diagonal = np.bincount(member, weights[group], len(free)).astype(np.float64)
        matrix = np.diag(sizes / weights)
        for one, other in _pairs(member):
            np.subtract.at(matrix, (group[one], group[other]), 1 / diagonal[member[one]])
        return cls(free, member, group, diagonal, matrix)

    def solve(self, right: F64) -> F64:
        """Return the values of the ranks ``free`` for the right sides [k], float64 [k]."""
        own = right / self.diagonal
        sums = np.bincount(self.group, own[self.member], len(self.matrix))
        shift = np.linalg.solve(self.matrix, sums)
        moved = np.bincount(self.member, shift[self.group], len(self.free))
        return np.asarray(own + moved / self.diagonal)

    def variances(self) -> F64:
        """Return the diagonal of the inverse, float64 [k]."""
        inverse = np.linalg.inv(self.matrix)
        sums = np.zeros(len(self.free))
        for one, other in _pairs(self.member):
            np.add.at(sums, self.member[one], inverse[self.group[one], self.group[other]])
        return np.asarray((1 + sums / self.diagonal) / self.diagonal)


def _pairs(member: I64) -> Iterator[tuple[I64, I64]]:
    """Yield all ordered pairs of memberships of one rank, by their distance in ``member``."""
    here = np.arange(len(member))
    yield here, here
    for apart in range(1, len(member)):
        one = here[:-apart][member[:-apart] == member[apart:]]
        if not len(one):
            return
        yield one, one + apart
        yield one + apart, one


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
    groups = _by_groups(observations, count)
    if groups is None and _are_pairs(observations):
        weight = np.array([one.weight for one in observations])
        return PairEquations.of(observations, count).solve(weight)
    right = np.zeros(count)
    for one in observations:
        right[one.members] += one.weight * (one.values - one.values.mean())
    result = np.zeros(count)
    if groups is not None:
        result[groups.free] = groups.solve(right[groups.free])
        return result
    matrix, free = _normal_equations(observations, count)
    if len(free):
        result[free] = np.linalg.solve(matrix, right[free])
    return result


class PairEquations(Struct, frozen=True):
    """Equations of observations of two members each, which are solved for several weights.

    Attributes:
        members: Of each observation, int64 [n, 2].
        values: Likewise, float64 [n, 2].
        free: Indices that are not the lowest of their component.
        count: Number of all indices.
    """

    members: I64
    values: F64
    free: I64
    count: int

    @classmethod
    def of(cls, observations: Sequence[Observation], count: int) -> PairEquations:
        """Equations of one observation or more."""
        members = np.stack([one.members for one in observations])
        distinct = distinct_values(members[:, 0] * count + members[:, 1])
        roots = components(list(np.stack(np.divmod(distinct, count), axis=1)), count)
        values = np.stack([one.values for one in observations])
        return cls(members, values, np.flatnonzero(roots != np.arange(count)), count)

    def solve(self, weight: F64) -> F64:
        """Return the values that `solve` returns with these weights, float64 [count]."""
        rest = weight[:, np.newaxis] * (self.values - self.values.mean(axis=1, keepdims=True))
        right = np.bincount(self.members.ravel(), rest.ravel(), self.count)
        result = np.zeros(self.count)
        if len(self.free):
            result[self.free] = np.linalg.solve(self.matrix(weight), right[self.free])
        return result

    def matrix(self, weight: F64) -> F64:
        """Return the matrix over the free indices."""
        ones, others = self.members.T
        rows = np.stack([ones, ones, others, others], axis=1)
        columns = np.stack([ones, others, ones, others], axis=1)
        half = 0.5 * weight
        parts = np.stack([half, -half, -half, half], axis=1)
        size = self.count * self.count
        sums = np.bincount((rows * self.count + columns).ravel(), parts.ravel(), size)
        matrix: F64 = sums.astype(np.float64, copy=False).reshape(self.count, self.count)
        return matrix[np.ix_(self.free, self.free)]


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
    if _are_pairs(observations):
        equations = PairEquations.of(observations, count)
        weight = np.array([one.weight for one in observations])
        return equations.matrix(weight), equations.free
    laplacian = np.zeros((count, count))
    for one in observations:
        size = len(one.members)
        laplacian[np.ix_(one.members, one.members)] += one.weight * (np.eye(size) - 1 / size)
    links = [one.members for one in observations]
    roots = components(links, count)
    free = np.flatnonzero(roots != np.arange(count))
    return laplacian[np.ix_(free, free)], free


def _are_pairs(observations: Sequence[Observation]) -> bool:
    """Whether all observations are of two members, which are added at once."""
    return bool(observations) and all(len(one.members) == 2 for one in observations)


FEWEST: Final = 4
"""Fewer transfers each way tell no clock."""
MAX_ONE_WAY_NS: Final = 1_000_000
"""Ends that differ by more in both directions are those of copies into buffers."""
_PRESENT_SHARE: Final = 0.1
"""A transfer whose shorter side is below this quantile did not have both sides present."""


class PairedEnds(Struct, frozen=True):
    """Transfers between two ranks, of both directions; arrays of one length.

    Attributes:
        members: indices of the inputs, the first below the second.
        difference_ns: clock of the second minus clock of the first by each transfer, float64.
        end_ns: end on the first rank, int64 on its own clock.
        one_way_ns: how much later the receiver ends.
    """

    members: tuple[int, int]
    difference_ns: F64
    end_ns: I64
    one_way_ns: float


def paired_ends(pairs: Pairs, inputs: Sequence[MatchInput]) -> Iterator[PairedEnds]:
    """Yield the ends of every two ranks with enough transfers in both directions."""
    low = np.minimum(pairs.sender, pairs.receiver)
    high = np.maximum(pairs.sender, pairs.receiver)
    for code in distinct_values(low * len(inputs) + high).tolist():
        first, second = divmod(code, len(inputs))
        rows = np.flatnonzero((low == first) & (high == second))
        found = _ends_of(pairs, inputs, rows, first, second)
        if found is not None:
            yield found


def _ends_of(
    pairs: Pairs, inputs: Sequence[MatchInput], rows: I64, first: int, second: int
) -> PairedEnds | None:
    forward = pairs.sender[rows] == first
    row_of_first = np.where(forward, pairs.send_row[rows], pairs.recv_row[rows])
    row_of_second = np.where(forward, pairs.recv_row[rows], pairs.send_row[rows])
    ones, others = inputs[first].calls, inputs[second].calls
    end = ones.end_ns[row_of_first]
    later = (others.end_ns[row_of_second] - end).astype(np.float64)
    shorter = np.minimum(ones.dur_ns[row_of_first], others.dur_ns[row_of_second])
    present = np.zeros(len(rows), np.bool_)
    for direction in (forward, ~forward):
        if np.count_nonzero(direction) < FEWEST:
            return None
        present |= direction & (shorter >= quantile(shorter[direction], _PRESENT_SHARE))
    f = float(median_along(later[forward & present]))
    b = float(median_along(-later[~forward & present]))
    one_way = (f + b) / 2
    if abs(one_way) > MAX_ONE_WAY_NS:
        return None
    difference = np.where(forward, later - one_way, later + one_way)
    return PairedEnds((first, second), difference[present], end[present], one_way)


class _Sample(Struct, frozen=True):
    """Ends of the n collectives of one group with m members.

    ``members`` index the ranks, ``end_ns`` [n] are the ends on the clock of the first member,
    ``time`` [n] the same in s from the reference time.
    """

    members: I64
    deviation: Deviations
    end_ns: I64
    time: F64
    share: float = 1.0  # weight of an instance, that of a collective is 1

    def residual(self, drift: F64, offsets: F64) -> F64:
        """Return the deviations without drift (ns per s) and offsets (ns), float64 ns [n, m]."""
        rate, ahead = drift[self.members], offsets[self.members]
        if not rate.any() and not ahead.any():
            return self.deviation.values  # the median of its rows is 0
        found = np.empty_like(self.deviation.values)
        for some in together(*found.shape[::-1]):  # a table of all is as large as the result
            rest = self.deviation.values[some] - ahead
            if rate.any():
                rest -= self.time[some, np.newaxis] * rate
            np.subtract(rest, median_along(rest, 1)[:, np.newaxis], out=found[some])
        return found

    def offset_observation(self, drift: F64, offsets: F64) -> Observation:
        """Return the remaining offsets, weighted by the number of instances of the group."""
        rest = self.residual(drift, offsets)
        is_whole = rest is self.deviation.values
        middle = self.deviation.medians if is_whole else median_along(rest)
        return Observation(self.members, middle, self.share * len(self.end_ns))

    def drift_observation(self) -> Observation:
        """Return the slopes of the members, weighted by 1 / (median standard error)^2."""
        values, errors = self.deviation.slopes(self.time)
        return Observation(self.members, values, 1 / float(median_along(errors)) ** 2)

    def with_times(self, offsets: F64, reference_ns: int) -> _Sample:
        """Return the sample with times, given the offset of its first member."""
        return replace(self, time=(self._common_ns(offsets) - reference_ns) / 1e9)

    def extent_ns(self, offsets: F64) -> tuple[int, int]:
        """Return the first and the last end on the common clock, ns."""
        common = self._common_ns(offsets)
        return int(common.min()), int(common.max())

    def _common_ns(self, offsets: F64) -> I64:
        return np.asarray(self.end_ns - round(float(offsets[self.members[0]])))


_TRANSFER_SHARE: Final = 0.01
"""Weight of a transfer: its ends scatter ten times as far as those of a collective."""

_T_975: Final = {2: 12.706, 3: 4.303, 4: 3.182}
"""Quantile 0.975 of Student's t for a number of values, by that number."""
_FEW: Final = max(_T_975)


@fact("clocks")
def estimate_clocks(
    matches: Matches,
    inputs: Sequence[MatchInput],
    pairs: Pairs | None = None,
    ends: Mapping[int, ComparedEnds] | None = None,
) -> ClockModel:
    """Estimate the clocks of all ranks from matched fully dependent collectives.

    Ranks that no collective links, such as the stages of a pipeline, are linked by the transfers
    of ``pairs``. All-to-alls are used only where nothing else exists. Where every match is
    uncertain, only residuals are given and no clock is marked known. At most ``MAX_INSTANCES``
    instances of a group are used, evenly spread; ``n`` of a `Clock` counts those used. ``ends`` are
    those that `match_calls` compared, by group.
    """
    part = [inputs[index] for index in taking_part(inputs)]
    evidence, chosen = _evidence(matches)
    count = len(part)
    untimed = _samples(chosen, part, ends or {})
    if pairs is not None and len(pairs) and evidence != "uncertain matches":
        linked = components([sample.members for sample in untimed], count)
        added = _transfer_samples(pairs, inputs, part, linked)
        untimed += added
        if added:
            evidence = "transfers" if evidence == "none" else f"{evidence} and transfers"
    rough = _offsets(untimed, np.zeros(count), count)
    reference_ns, samples = _with_times(untimed, rough)
    drift = _drift(samples, _hosts(part))
    drift[np.abs(drift) > MAX_DRIFT_PPB] = 0.0  # the residuals say how far off that clock is
    offsets = _offsets(samples, drift, count) if drift.any() else rough
    spread = _residuals(samples, drift, offsets)
    if evidence == "uncertain matches":
        offsets, joined = _pooled(part, np.zeros(count), np.arange(count), spread)
        drift = np.zeros(count)
    else:
        linked = components([sample.members for sample in samples], count)
        apart, (offsets, joined) = offsets, _pooled(part, offsets, linked, spread)
        if not np.array_equal(apart, offsets):
            spread = _residuals(samples, drift, offsets)
    clocks = {item.label: Clock() for item in inputs}
    size = np.bincount(joined, minlength=count)
    for index, item in enumerate(part):
        lowest = part[joined[index]].rank
        known = bool(size[joined[index]] > 1) and _residual_is_small(spread[index])
        clocks[item.label] = _clock(offsets[index], spread[index], drift[index], lowest, known)
    everything = np.concatenate([np.empty(0), *spread])
    residual = round(nearest_rank_of(everything, 0.95)) if len(everything) else None
    return ClockModel(clocks, evidence, residual, _widest(residual, clocks.values()), reference_ns)


def _evidence(matches: Matches) -> tuple[str, list[tuple[GroupMatch, Bool]]]:
    """Return the kind of evidence and its instances: the first kind of which any exist."""
    choices = (
        ("dependent collectives", MEDIUM, fully_dependent),
        ("all-to-all", MEDIUM, exchange),
        ("uncertain matches", 0, fully_dependent),
        ("uncertain matches", 0, exchange),
    )
    for name, confidence, applies in choices:
        found = [
            (match, match.usable & (match.confidence >= confidence) & applies(match.kind))
            for match in matches.groups
        ]
        found = [(match, chosen) for match, chosen in found if chosen.any()]
        if found:
            return name, found
    return "none", []


def _samples(
    chosen: Sequence[tuple[GroupMatch, Bool]],
    part: Sequence[MatchInput],
    ends: Mapping[int, ComparedEnds],
) -> list[_Sample]:
    by_label = {item.label: item for item in part}
    index_of = {item.label: index for index, item in enumerate(part)}
    samples = []
    for match, rows in chosen:
        wanted, known = evenly(np.flatnonzero(rows)), ends.get(match.group)
        if known is None or not np.array_equal(known.rows, wanted):
            some = match.where(wanted)
            end = gather(some, by_label, "start_ns") + gather(some, by_label, "dur_ns")
            known = ComparedEnds(wanted, end[:, 0], Deviations(end_deviation(end)))
        members = np.array([index_of[label] for label in match.labels], np.int64)
        samples.append(_Sample(members, known.deviation, known.end_ns, np.zeros(len(wanted))))
    return samples


def _transfer_samples(
    pairs: Pairs, inputs: Sequence[MatchInput], part: Sequence[MatchInput], linked: I64
) -> list[_Sample]:
    """Return samples of transfers between ranks that no collective links."""
    place = {item.label: index for index, item in enumerate(part)}
    samples = []
    for one in paired_ends(pairs, inputs):
        members = np.array([place[inputs[index].label] for index in one.members], np.int64)
        if linked[members[0]] != linked[members[1]]:
            half = one.difference_ns / 2
            deviation, times = Deviations(np.stack([-half, half], axis=1)), np.zeros(len(half))
            samples.append(_Sample(members, deviation, one.end_ns, times, _TRANSFER_SHARE))
    return samples


def _with_times(samples: Sequence[_Sample], rough: F64) -> tuple[int, list[_Sample]]:
    """Return the reference time and the samples with times relative to it, by offsets of the ranks.

    The reference time is the middle of all collectives on the common clock, on which drifts count
    from it, so that a large offset of a rank does not shift it.
    """
    if not samples:
        return 0, []
    extents = [sample.extent_ns(rough) for sample in samples]
    reference_ns = (min(first for first, _ in extents) + max(last for _, last in extents)) // 2
    return reference_ns, [sample.with_times(rough, reference_ns) for sample in samples]


def _hosts(part: Sequence[MatchInput]) -> I64:
    """Return the host number of each rank; a rank of unknown host has a number of its own."""
    names = [item.host or f"\0{index}" for index, item in enumerate(part)]
    numbers = {name: index for index, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], np.int64)


def _drift(samples: Sequence[_Sample], hosts: I64) -> F64:
    """Return the drift of each rank against the lowest of its component, ns per s.

    The drift is 0 unless it exceeds 2.576 standard errors (its 99 % interval excludes 0). Ranks of
    one host drift alike, so their pooled drift, which is more precise, is used unless the own
    drift of a rank is certain and differs from it by as many of its standard errors.
    """
    count = len(hosts)
    seen = [sample.drift_observation() for sample in samples]
    own, own_error = solve(seen, count), standard_errors(seen, count)
    number = int(hosts.max(initial=-1)) + 1
    pooled = [one for one in (_by_host(one, hosts) for one in seen) if len(one.members) > 1]
    shared, error = solve(pooled, number)[hosts], standard_errors(pooled, number)[hosts]
    shared = np.where(np.abs(shared) > Z_99 * error, shared, 0.0)
    differs = (np.abs(own - shared) > Z_99 * own_error) & (np.abs(own) > Z_99 * own_error)
    return np.where(differs, own, shared)


def _by_host(seen: Observation, hosts: I64) -> Observation:
    """Return an observation of hosts: the means over the members of each host."""
    names, place = unique_inverse(hosts[seen.members])
    number = np.bincount(place)
    values = np.bincount(place, seen.values) / number
    return Observation(names, values, seen.weight * float(number.mean()))


def _offsets(samples: Sequence[_Sample], drift: F64, count: int) -> F64:
    """Return the offsets in ns, float64 [count], 0 for the lowest rank of every component.

    The second pass takes its medians after subtracting the offsets of the first, so that a clock
    that is far off does not shift the median of its group.
    """
    offsets = np.zeros(count)
    for _ in range(2):
        offsets += solve([sample.offset_observation(drift, offsets) for sample in samples], count)
    return offsets


def _residuals(samples: Sequence[_Sample], drift: F64, offsets: F64) -> list[F64]:
    """Return the absolute residuals of the ends of each rank, ns."""
    found: list[list[F64]] = [[] for _ in offsets]
    for sample in samples:
        rest = np.abs(sample.residual(drift, offsets))
        for column, member in zip(columns_of(rest), sample.members.tolist(), strict=True):
            found[member].append(column)
    return [one[0] if len(one) == 1 else np.concatenate([np.empty(0), *one]) for one in found]


def _pooled(
    part: Sequence[MatchInput], offsets: F64, linked: I64, spread: Sequence[F64]
) -> tuple[F64, I64]:
    """Return offsets with the ranks of one host made equal, and the components joined by hosts.

    A rank whose offset differs from that of its host by more than its residual (p95) and
    ``ONE_CLOCK_NS`` keeps its own.
    """
    pooled = offsets.copy()
    joined = linked.copy()
    of_host: defaultdict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(part):
        if item.host:
            of_host[item.host].append(index)
    for members in of_host.values():
        here = np.array(members, np.int64)
        home = joined[here[0]]
        middle = _pool(pooled, here[joined[here] == home], spread)
        for component in dict.fromkeys(joined[here].tolist()):
            if component == home:
                continue
            own = here[joined[here] == component]
            moved = joined == component
            pooled[moved] += middle - float(median_along(pooled[own]))
            joined[moved] = home
            _pool(pooled, own, spread)
    lowest = np.empty(len(joined), np.int64)
    for _, same in rows_by_value(joined):
        lowest[same] = same[0]
    return pooled - pooled[lowest], lowest


def _pool(offsets: F64, members: I64, spread: Sequence[F64]) -> float:
    """Set offsets that agree with the median of the members to it, in place, and return it."""
    middle = float(median_along(offsets[members]))
    for member in members.tolist():
        apart, own = abs(offsets[member] - middle), spread[member]
        if apart <= ONE_CLOCK_NS or (len(own) and apart <= nearest_rank(own, 0.95)):
            offsets[member] = middle
    return middle


def _error_bar(spread: F64) -> int | None:
    """Return the p95 of the residuals, ns; the 95 % prediction interval where they are few.

    The largest of two to four residuals understates how far the next end may lie. A single end
    has no residual that tells anything: None.
    """
    count = len(spread)
    if count < 2:
        return None
    largest = nearest_rank(spread, 0.95)
    if count in _T_975:
        deviation = float(np.sqrt(np.square(spread).sum() / (count - 1)))
        largest = max(largest, _T_975[count] * deviation * np.sqrt(1 + 1 / count))
    return round(float(largest))


def _widest(residual: int | None, clocks: Iterable[Clock]) -> int | None:
    """Return the error bar of all clocks: that of the fewest ends where there are few."""
    few = [clock.residual_p95_ns for clock in clocks if 0 < clock.n <= _FEW]
    if residual is None or None in few:
        return None
    return max([residual, *(bar for bar in few if bar is not None)])


def _residual_is_small(spread: F64) -> bool:
    is_small = not len(spread) or float(spread.max()) <= MAX_RESIDUAL_NS
    return is_small or nearest_rank(spread, 0.95) <= MAX_RESIDUAL_NS


def _clock(offset: float, spread: F64, drift: float, lowest: int | None, known: bool) -> Clock:
    drift_ppb = round(drift)
    return Clock(
        offset_ns=round(offset) if known else 0,
        residual_p50_ns=round(float(median_along(spread))) if len(spread) else None,
        residual_p95_ns=_error_bar(spread),
        n=len(spread),
        drift_ppb=drift_ppb if drift_ppb and known else None,
        component=MISSING if lowest is None else lowest,
        known=known,
    )


MAX_DOUBTFUL_SHARE: Final = 0.02
"""Share of missing or doubtful collectives up to which a group is not matched again."""
ENOUGH_FOR_CLOCKS: Final = 64
"""Trusted collectives from which on a group estimates its clocks well enough by itself."""


def match_and_clock(
    inputs: Sequence[MatchInput],
    groups: Sequence[CommGroup],
    pairs: Pairs | None = None,
    matches: Matches | None = None,
    ends: dict[int, ComparedEnds] | None = None,
) -> tuple[Matches, ClockModel]:
    """Match the calls of all ranks and estimate the clocks, matching doubtful groups twice.

    A large group determines the clocks of its members; a small group with few calls, some of
    which are missing, can then be lined up by time. ``pairs`` are transfers, for the clocks of
    ranks that no collective links; ``matches`` is what `match_calls` finds, where it is known, and
    ``ends`` what it compared, which is freed.
    """
    ends = {} if ends is None else ends
    matches = matches or match_calls(inputs, groups, ends=ends)
    clocks = estimate_clocks(matches, inputs, pairs, ends)
    ends.clear()
    doubtful = doubtful_groups(matches)
    if not doubtful:
        return matches, clocks
    known = {
        label: ClockDifference(clock.offset_ns, (clock.drift_ppb or 0) / 1e9, clocks.reference_ns)
        for label, clock in clocks.clocks.items()
        if clock.known
    }
    if not known:
        return matches, clocks
    rematched = {
        match.group: match
        for match in match_calls(inputs, groups, clocks=known, only=doubtful).groups
    }
    chosen = [
        rematched[match.group]
        if _num_trusted(rematched.get(match.group)) > _num_trusted(match)
        else match
        for match in matches.groups
    ]
    if all(new is old for new, old in zip(chosen, matches.groups, strict=True)):
        return matches, clocks
    matches = replace(matches, groups=tuple(chosen))
    return matches, estimate_clocks(matches, inputs, pairs)


def doubtful_groups(matches: Matches) -> frozenset[int]:
    """Return the groups that are matched again when the clocks are known."""
    return frozenset(match.group for match in matches.groups if _is_doubtful(match))


def _is_doubtful(match: GroupMatch) -> bool:
    """Whether more than a few calls of a group lined up by order are missing or doubtful."""
    doubtful = (match.level == ORDER) & (~match.usable | (match.confidence == LOW))
    return _num_trusted(match) < ENOUGH_FOR_CLOCKS and int(
        doubtful.sum()
    ) > MAX_DOUBTFUL_SHARE * len(doubtful)


def _num_trusted(match: GroupMatch | None) -> int:
    """Return the number of usable collectives above LOW confidence."""
    if match is None:
        return 0
    return int(np.count_nonzero(match.usable & (match.confidence > LOW)))
