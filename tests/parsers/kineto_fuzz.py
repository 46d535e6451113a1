"""Mutants of traces through both decoders: columns, counts and notes must be the same.

    python tests/parsers/kineto_fuzz.py --mutants 200000 [--seed N]

The general decoder is the reference. Every mutant is read whole by it, and by the compiled
scanner whole and in pieces of a random size.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_pieces
from ccltui.parsers.kineto.scanner import typed_event
from ccltui.parsers.text.compression import TextChunks

WHOLE = 8 << 20
SIZES = (1, 2, 3, 7, 31, 64, 257, 1000, 4096, 65536)


def outcome(path: Path, decoder: str, size: int) -> object:
    """All that reading ``path`` in pieces of ``size`` bytes gives, comparable."""
    os.environ["CCLTUI_ACCEL"] = "1" if decoder == "compiled" else "0"
    try:
        return contents(read_in_pieces(path, size))
    except TraceError as error:
        return str(error)


def read_in_pieces(path: Path, size: int) -> RankTrace:
    """Read ``path`` as ``read_kineto`` does, its text cut into pieces of ``size`` bytes.

    The file itself is read at once: a system call for every byte would take longer than decoding.
    """
    chunks = TextChunks(path, WHOLE)
    text = b"".join(chunks)
    pieces = (text[start : start + size] for start in range(0, len(text), size))
    return read_pieces(pieces, chunks, path, shown="trace.json")


def contents(trace: RankTrace) -> dict[str, Any]:
    """All columns, side tables and facts of a trace as plain values."""
    return {
        "events": {
            group: {
                name: getattr(events, name).tolist()
                for name, _ in (*Events.COLUMNS, *Events.SPARSE)
            }
            for group, events in trace.events.items()
        },
        "collectives": {
            name: getattr(trace.collective_args, name).tolist()
            for name, _ in CollectiveArgs.COLUMNS
        },
        "strings": list(trace.strings),
        "tracks": trace.tracks,
        "groups": trace.process_groups,
        "devices": trace.devices,
        "counts": dict(trace.counts),
        "notes": trace.notes,
        "facts": (trace.rank, trace.world_size, trace.backend, trace.host, trace.base_ns),
        "truncated": trace.truncated,
    }


def difference(path: Path, *sizes: int) -> str | None:
    """Return how the decoders disagree on ``path``, whole and in pieces of each of ``sizes`` bytes.

    None if they agree.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCLTUI_ACCEL", "1")  # what it was is set again behind the last reading
        expected = outcome(path, "general", WHOLE)
        readings = [("compiled", WHOLE)]
        readings += [(decoder, size) for size in sizes for decoder in ("compiled", "general")]
        for decoder, pieces in readings:
            got = outcome(path, decoder, pieces)
            if got != expected:
                return f"{decoder} in pieces of {pieces}: {first_difference(expected, got)}"
    return None


def first_difference(expected: object, got: object) -> str:
    """Describe the first place at which two nested results differ."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *got]:
            if expected.get(key) != got.get(key):
                return f"{key}: {first_difference(expected.get(key), got.get(key))}"
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            return f"{len(expected)} items are not {len(got)}"
        for one, other in zip(expected, got, strict=True):
            if one != other:
                return f"in a list: {first_difference(one, other)}"
    return f"{expected!r:.300} is not {got!r:.300}"


# One of everything.
EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1, "dur": 2},
    {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 0.25},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 2.5, "dur": 0.25,
     "args": {"grid": [24, 2, 1], "device": 0}},
    {
        "ph": "X",
        "cat": "kernel",
        "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()",
        "pid": 0,
        "tid": "stream 20",
        "ts": 4389490124076.093,
        "dur": 1.0625,
        "args": {
            "grid": [8, 1, 1],
            "block": [544, 1, 1],
            "blocks per SM": 0.07,
            "est. achieved occupancy %": 31,
            "External id": 74,
            "correlation": 5,
            "stream": 20,
            "device": 0,
            "Collective name": "allreduce",
            "In msg nelems": 8,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1, ...]",
            "Seq": 3,
        },
    },
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 9, "ts": 2,
     "dur": 1, "args": {"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float",
                        "Process Group Name": "0", "Process Group Ranks": "[0, 1, ...]"}},
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 9, "ts": 2,
     "dur": 1, "args": {"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float",
                        "Process Group Name": "0", "Process Group Ranks": "[0, 1, ...]",
                        "Seq": 7}},
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 9, "ts": 2,
     "dur": 1, "args": {"Input Dims": [[6], [], []], "Input type": ["float", "", ""],
                        "Concrete Inputs": ["", "7", "1", "0", "", "[2, 4]", "[]", "2"]}},
    {"ph": "X", "cat": "cpu_op", "name": "c10d::send", "pid": 9, "tid": 9, "ts": 3, "dur": 1,
     "args": {"Input Dims": [[[4]], [], []], "Input type": ["TensorList", "", "Scalar"],
              "Concrete Inputs": ["", "", "1"]}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 3, "dur": 1,
     "args": {"Record function id": 11, "Input Dims": [[8, 4], [4, 2]]}},
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": "c10d::allreduce_",
        "pid": 9,
        "tid": 9,
        "ts": 2,
        "dur": 1,
        "args": {"Input Dims": [[[4, 2]], []], "Input type": ["TensorList", ""],
                 "Record function id": 12},
    },
    {
        "ph": "X",
        "cat": "gpu_memcpy",
        "name": "Memcpy HtoD \u00b5 \U0001f600",
        "pid": 0,
        "tid": 7,
        "ts": 3,
        "dur": 1,
        "args": {"bytes": 4096, "memory bandwidth (GB/s)": 1.5e1, "correlation": 0},
    },
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 1,
     "pid": 9, "tid": 9, "args": {"correlation": 5, "x": [1, {"y": [None, True]}]}},
    {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "GPU"}},
    {"name": "thread_name", "ph": "M", "pid": 9, "tid": 9, "args": {"name": "main \"t\""}},
    {"name": "thread_name", "ph": "M", "pid": 9, "tid": 9, "args": {"name": "main"}},
    {"ph": "s", "id": 5, "pid": 9, "tid": 9, "ts": 1, "cat": "ac2g", "name": "ac2g"},
    {"ph": "B", "cat": "a,cpu_op", "name": "outer", "pid": 9, "tid": 9, "ts": 5},
    {"ph": "E", "pid": 9, "tid": 9, "ts": 7},
    {"ph": "i", "name": "[memory]", "ts": 5, "pid": 9, "tid": 9, "args": {"Bytes": 5}},
    {"ph": "X", "cat": "python_function", "name": "a.py(3): \"f\"\n", "ts": "12.5", "dur": 1},
]  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "schemaVersion": 1,
    "distributedInfo": {"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0"}]},
    "deviceProperties": [{"id": 0, "name": "GPU-X", "numSms": 12}, {}],
    "traceEvents": EVENTS,
    "baseTimeNanoseconds": 1700000000000000000,
    "other": {"a": [1, 2.5, "}], {"]},
}


def original(dice: random.Random) -> bytes:
    """Return a small trace of some of the events, sometimes of all, in one of several layouts.

    Few events are decoded in a third of the time of all, and a change hits each more often.
    """
    events = EVENTS
    if dice.random() < 0.9:
        chosen = sorted(dice.sample(range(len(EVENTS)), dice.randint(2, 6)))
        events = [EVENTS[place] for place in chosen]
    document = DOCUMENT | {"traceEvents": events}
    layouts: tuple[tuple[Any, dict[str, Any]], ...] = (
        (document, {}),
        (document, {"separators": (",", ":"), "ensure_ascii": False}),
        (document, {"indent": 4}),
        (events, {"indent": 1}),
    )
    value, options = dice.choice(layouts)
    return json.dumps(value, **options).encode()


WORDS = [
    *(bytes([byte]) for byte in b'"{}[],:\\ \n-.09e\x00\xff'),
    *(b"1e5", b"1e999", b"0.0005", b"18446744073709551615", b"null", b"true", b"NaN"),
    *(b"\\u00e9", b"\\ud83d", b'"ph":', b'"args":{', b'"ts":', b'"name":"x"', b"[[[["),
]


def mutant(dice: random.Random, data: bytes) -> bytes:
    """``data`` with a few bytes changed, removed, repeated, moved or inserted."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        place = dice.randrange(len(changed) or 1)
        kind = dice.randrange(6)
        if kind == 0 and changed:
            changed[place] = dice.randrange(256)
        elif kind == 1:
            del changed[place : place + dice.choice((1, 1, 2, 5, 30))]
        elif kind == 2:
            changed[place:place] = dice.choice(WORDS)
        elif kind == 3:
            word = dice.choice(WORDS)
            changed[place : place + len(word)] = word
        elif kind == 4:
            other = dice.randrange(len(changed) or 1)
            changed[place:place] = changed[other : other + dice.randrange(60)]
        elif dice.random() < 0.2:
            del changed[place:]
    return bytes(changed)


def run(mutants: int, seed: int, folder: Path) -> list[str]:
    """Differences found among ``mutants`` mutants; the texts stay in ``folder``."""
    dice = random.Random(seed)
    found = []
    path = folder / "trace.json"
    for index in range(mutants):
        text = mutant(dice, original(dice))
        # a new file: the file system flushes one that is truncated and written again
        path.unlink(missing_ok=True)
        path.write_bytes(text)
        problem = difference(path, dice.choice(SIZES))
        if problem is not None:
            kept = folder / f"mutant-{seed}-{index}.json"
            kept.write_bytes(text)
            found.append(f"{kept}: {problem}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    if not typed_event.compiled():
        sys.stderr.write("the scanner is not compiled here: nothing to compare\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="kineto-fuzz-") as folder:
        found = run(options.mutants, options.seed, Path(folder))
    sys.stdout.write("".join(line + "\n" for line in found[:20]))
    sys.stdout.write(f"{options.mutants} mutants, seed {options.seed}: {len(found)} differences\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
