"""Run one task in a process of its own: ``python -m bench.child TASK ARGUMENT…``.

Imports are inside the tasks, so that each process imports only what its task needs. The last line
on stdout is a JSON object: counts that prove what was read, or measurements of the task.
"""

# ruff: noqa: PLC0415
from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.inputs import Family, Layout
    from bench.rank_growth import Shape

Output = dict[str, Any]


def _columns(path: str) -> Output:
    """Read one file with ccltui; CCLTUI_ACCEL in the environment selects the decoder."""
    from ccltui.parsers.kineto.kineto_reader import read_kineto

    return _counted(read_kineto(Path(path)).counts)


def _json(path: str, collector: str) -> Output:
    _set_collector(collector)
    with Path(path).open(encoding="utf-8") as file:
        return _baseline(json.load(file))


def _orjson(path: str, collector: str) -> Output:
    import orjson

    _set_collector(collector)
    return _baseline(orjson.loads(Path(path).read_bytes()))


def _simdjson(path: str) -> Output:
    """Parse with simdjson; only the values of the columns become Python objects."""
    import simdjson  # type: ignore[import-not-found,unused-ignore]  # optional: pysimdjson

    gc.disable()
    return _baseline(simdjson.Parser().parse(Path(path).read_bytes()))


def _set_collector(collector: str) -> None:
    """Turn the garbage collector off, which traverses millions of live objects repeatedly."""
    if collector == "off":
        gc.disable()


def _baseline(document: Any) -> Output:
    from bench.baseline import columns

    counts = columns(document).counts
    return {"events": counts.events, "timed": counts.timed}


def _store(path: str, cache: str) -> Output:
    """Open one file from the store."""
    from ccltui.parsers.kineto import PARSER_VERSION
    from ccltui.parsers.store.column_store import Store

    store = Store(Path(cache))
    trace = store.load(store.key(Path(path), PARSER_VERSION))
    if trace is None:
        raise LookupError(f"{path} is not in the store")
    return _counted(trace.counts)


def _fill(path: str, cache: str) -> Output:
    """Write the columns of one file to the store."""
    from ccltui.parsers.kineto import PARSER_VERSION
    from ccltui.parsers.kineto.kineto_reader import read_kineto
    from ccltui.parsers.store.column_store import Store

    store = Store(Path(cache))
    key = store.key(Path(path), PARSER_VERSION)
    return {"saved": store.load(key) is not None or store.save(key, read_kineto(Path(path)))}


def _ranks(directory: str, cache: str, ranks: str, jobs: str) -> Output:
    """Load the first ``ranks`` ranks of a directory into the store, in ``jobs`` processes."""
    from msgspec import structs

    from ccltui.parsers.discovery.discover import discover
    from ccltui.parsers.ingest.load import Loaded, load

    found = discover(directory).choose()
    capture = structs.replace(found, files=found.files[: int(ranks)])
    loaded = [
        event
        for event in load(capture, cache_dir=Path(cache), jobs=int(jobs))
        if isinstance(event, Loaded)
    ]
    return {
        "ranks": len(loaded),
        "cached": sum(event.cached for event in loaded),
        "events": sum(sum(event.trace.counts.values()) for event in loaded),
    }


def _job(directory: str, cache: str, how: str) -> Output:
    """Open a directory as a job; if ``how`` is ``columns``, read every column once."""
    from ccltui.parsers.columns import Events
    from ccltui.parsers.job import open_job

    job = open_job(directory, cache_dir=Path(cache))
    rows = 0
    for trace in job.ranks if how == "columns" else ():
        for events in trace.events.values():
            rows += len(events)
            for name, _ in Events.COLUMNS:
                getattr(events, name).max()
    return {
        "ranks": len(job.ranks),
        "events": sum(sum(trace.counts.values()) for trace in job.ranks),
        "rows": rows,
    }


def _plain(record: Any) -> Output:
    """Return a record as plain values."""
    import msgspec

    document: Output = msgspec.to_builtins(record)
    return document


def _make_trace(directory: str, family: Family, layout: Layout, megabytes: str) -> Output:
    from bench.make import trace

    return _plain(trace(Path(directory), family, layout, int(megabytes)))


def _make_ranks(directory: str, number: str, events_a_rank: str) -> Output:
    from bench.make import ranks

    return _plain(ranks(Path(directory), int(number), int(events_a_rank)))


def _steps(ranks: str, collectives: str, shape: Shape) -> Output:
    """Cost in CPU-s of every step of all metrics, for a job made from one rank."""
    import tempfile

    from bench.rank_growth import cost_of_steps, cpu_seconds
    from bench.scale_jobs import write_job

    with tempfile.TemporaryDirectory(prefix="ccltui-bench-") as folder:
        traces, store = Path(folder) / "traces", Path(folder) / "store"
        write_job(traces, store, int(ranks), int(collectives), shape)
        return cost_of_steps(traces, store, cpu_seconds)


def _screen(directory: str, cache: str, ranks: str) -> Output:
    from bench.screen import time_first_opening

    return _plain(time_first_opening(Path(directory), Path(cache), int(ranks)))


def _make_nsys(path: str, megabytes: str) -> Output:
    from bench.nsys_make import export

    return {"events": export(Path(path), int(megabytes))}


def _metric(path: str, metric: str, cache: str) -> Output:
    """Run the command line for one metric; return the value of the first result."""
    from ccltui.__main__ import main

    answer = Path(cache) / "answer.json"
    sys.argv = ["ccltui", path, "--metric", metric, "--cache-dir", cache]
    sys.argv += ["--format", "json", "-o", str(answer)]
    status = main()
    results = json.loads(answer.read_bytes())["results"] if status == 0 else [{"value": None}]
    return {"value": results[0]["value"]}


def _version() -> Output:
    """Run the command line for the version."""
    from ccltui.__main__ import main

    sys.argv = ["ccltui", "--version"]
    return {"status": main()}


def _keys(directory: str, cache: str, ranks: str, events: str, size: str) -> Output:
    from bench.keys import drive

    width, height = map(int, size.split("x"))
    return _plain(drive(Path(directory), Path(cache), int(ranks), int(events), (width, height)))


def _heat(ranks: str, collectives: str, width: str, height: str) -> Output:
    from bench.keys import heat_frame_ms

    size = int(width), int(height)
    return {"frames_ms": heat_frame_ms(int(ranks), int(collectives), size)}


def _machine() -> Output:
    from bench.machine import facts

    return facts()


def _kernels(count: str, repetitions: str) -> Output:
    from bench.kernels import measure

    return measure(int(count), int(repetitions))


def _counted(counts: Mapping[str, int]) -> Output:
    timed = sum(number for key, number in counts.items() if key.startswith("X:"))
    return {"events": sum(counts.values()), "timed": timed - counts.get("X:Trace", 0)}


def _collectives(ranks: str, count: str, numbered: str) -> Output:
    """Generate collectives of many ranks, match and align them, and rank stragglers."""
    from bench.collectives import draw, ranked

    is_numbered = numbered == "1"
    dropped = 0.0 if is_numbered else 0.002
    found = ranked(*draw(int(ranks), int(count), numbered=is_numbered, dropped=dropped))
    return _plain(found)


TASKS: dict[str, Callable[..., Output]] = {
    "columns": _columns,
    "json": _json,
    "orjson": _orjson,
    "simdjson": _simdjson,
    "fill": _fill,
    "store": _store,
    "ranks": _ranks,
    "steps": _steps,
    "job": _job,
    "kernels": _kernels,
    "collectives": _collectives,
    "screen": _screen,
    "keys": _keys,
    "heat": _heat,
    "machine": _machine,
    "make_trace": _make_trace,
    "make_nsys": _make_nsys,
    "metric": _metric,
    "version": _version,
    "make_ranks": _make_ranks,
}


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
