"""Check guessed ranks of a merged file by the process groups whose collectives each one ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.merged_files import GUESSES, ranks_of_groups


def with_checked_ranks(traces: Sequence[RankTrace]) -> tuple[RankTrace, ...]:
    """Return the ranks of one file with numbers that their process groups allow.

    A rank takes part in the collectives of its own groups only. Where a guess is not a member of
    them, the numbers are those that the groups leave, in order; where they leave none, unknown.
    """
    guessed = [trace.rank_source in GUESSES for trace in traces]
    if not any(guessed):
        return tuple(traces)
    members = [ranks_of_groups(trace) for trace in traces]
    if all(
        allowed is None or trace.rank in allowed
        for trace, allowed in zip(traces, members, strict=True)
    ):
        return tuple(traces)
    every = sorted({rank for allowed in members if allowed is not None for rank in allowed})
    fits = len(every) == len(traces) and all(
        allowed is None or rank in allowed for rank, allowed in zip(every, members, strict=True)
    )
    only = [next(iter(allowed)) for allowed in members if allowed is not None and len(allowed) == 1]
    if len(set(only)) == len(traces):
        return tuple(
            dataclasses.replace(trace, rank=rank, rank_source="process groups")
            for trace, rank in zip(traces, only, strict=True)
        )
    return tuple(
        dataclasses.replace(trace, rank=every[number])
        if fits
        else dataclasses.replace(trace, rank=None, rank_source="none")
        for number, trace in enumerate(traces)
    )
