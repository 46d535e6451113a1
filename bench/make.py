"""Write the large inputs by repeating small files of the generator or of public traces.

Runs as a task of :mod:`bench.child` to keep the measuring process small: the operating system
counts the memory of a process at the time of a fork to its child as well.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path

from bench.inputs import PUBLIC, TRACE_NAME, Family, Layout, public_file
from bench.repeat import Counts, Pattern, Steps, pattern_of
from ccltui.demo import Spec, build
from ccltui.demo.demo_job import CARD_NAME

_RANK = Spec(layers=8, micro_batches=8, with_python=True, with_sync_rows=True)
_OLD_RANK = Spec(layers=8, micro_batches=8, layout="old2021", metadata="names_only")
_SMALL_RANKS = Spec(dp_shard=16, steps=2, stragglers=())


def trace(directory: Path, family: Family, layout: Layout, megabytes: int) -> Counts:
    """Write one rank of at least ``megabytes`` (1e6 bytes) of text."""
    pattern = pattern_of(source(family, layout))
    repetitions = max(-(-megabytes * 1_000_000 // pattern.block_bytes), 1)
    _stream(directory / TRACE_NAME, pattern, repetitions, pattern.steps)
    return pattern.counts(repetitions)


def ranks(directory: Path, number: int, events_a_rank: int) -> Counts:
    """Write a job of 8 or 64 ranks of at least ``events_a_rank`` events, with equal time steps."""
    files = dict(_files(_RANK if number == _RANK.world_size else _SMALL_RANKS))
    card = files.pop(CARD_NAME)
    patterns = {name: pattern_of(text) for name, text in files.items()}
    steps = reduce(Steps.covering, (pattern.steps for pattern in patterns.values()))
    fewest = min(pattern.each.events for pattern in patterns.values())
    repetitions = max(-(-events_a_rank // fewest), 1)
    for name, pattern in patterns.items():
        _stream(directory / name, pattern, repetitions, steps)
    (directory / CARD_NAME).write_text(card)
    counts = (pattern.counts(repetitions) for pattern in patterns.values())
    return reduce(Counts.__add__, counts)


def source(family: Family, layout: Layout) -> str:
    """Return the small file that is repeated; other layouts reformat the native one."""
    old = layout == "2020"
    if family == "generated":
        text = _files(_OLD_RANK if old else _RANK)[TRACE_NAME]
    else:
        path = public_file(PUBLIC["2020" if old else "native"])
        if path is None:
            raise FileNotFoundError(layout)
        text = gzip.decompress(path.read_bytes()).decode()
    if layout in ("native", "2020"):
        return text
    return json.dumps(json.loads(text), indent=4 if layout == "indent4" else None)


@cache
def _files(spec: Spec) -> Mapping[str, str]:
    """Return the files of a simulated job; cached because a simulation takes seconds."""
    return build(spec).files


def _stream(path: Path, pattern: Pattern, repetitions: int, steps: Steps) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for text in pattern.texts(repetitions, steps):
            file.write(text)
