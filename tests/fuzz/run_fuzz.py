"""Fuzz the readers, guided by coverage where atheris is installed, and print a table of totals.

    python tests/fuzz/run_fuzz.py [TARGET ...] [--seconds S | --inputs N] [--corpus DIR]

Inputs come from the mutators of the targets (`fuzz_targets`), on seeds of our own; with
``--corpus`` those that reached new code are kept for the next run. Every target has a process of
its own, as many at once as there are CPUs, which is started again where an input ends it; the
input is known from memory that both share. Findings are written to ``--findings`` with their
inputs, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import mmap
import os
import pkgutil
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from fuzz_guard import Target

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "parsers")]

_STATE_BYTES = 1 << 20
_HEAD = struct.Struct("<QQQdQ")  # inputs, refused, bytes of the input, slowest in s, growth
_MOST_CRASHES = 5
_CHILD_MARGIN_S = 60
EXPENSIVE = {"nsys_sqlite": 6.0, "kineto": 4.0, "xla": 2.0}
"""Targets whose inputs take longer: they get as many times the time, or a part of the inputs."""


class Total(Struct):
    """Sums over the processes of one target."""

    name: str
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    growth: int = 0
    crashes: list[str] = field(default_factory=list)


class State:
    """What a child tells its parent, also when it is killed: counts, and the input it is at."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(_STATE_BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _STATE_BYTES)

    def begin(self, data: bytes) -> None:
        """Note the input that is read next."""
        size = min(len(data), _STATE_BYTES - _HEAD.size)
        self._map[16:24] = size.to_bytes(8, "little")
        self._map[_HEAD.size : _HEAD.size + size] = data[:size]

    def done(self, inputs: int, refused: int, slowest_s: float, growth: int) -> None:
        """Note the counts so far."""
        size = int.from_bytes(self._map[16:24], "little")
        _HEAD.pack_into(self._map, 0, inputs, refused, size, slowest_s, growth)

    def read(self) -> tuple[int, int, float, int, bytes]:
        """Return inputs, refused, slowest, growth and the last input."""
        inputs, refused, size, slowest, growth = _HEAD.unpack_from(self._map, 0)
        return inputs, refused, slowest, growth, self._map[_HEAD.size : _HEAD.size + size]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("targets", nargs="*", help="names; all without one")
    parser.add_argument("--seconds", type=float, default=180.0, help="for all targets together")
    parser.add_argument("--processes", type=int, default=_cpus(), help="targets at a time")
    parser.add_argument(
        "--inputs",
        type=int,
        help="for each target, fewer where they are slow; in place of --seconds",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--engine", choices=("atheris", "random"), default=_best_engine())
    parser.add_argument("--corpus", type=Path, help="folder that keeps what reached new code")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    options = parser.parse_args()
    warnings.simplefilter("error")  # a warning of numpy is a number that was not checked
    with _instrumented(options.engine):
        from fuzz_targets import TARGETS

        _import_parsers()
    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    names = options.targets or list(TARGETS)
    begun = set(options.findings.glob("*.input"))
    totals = {name: Total(name) for name in names}
    # What takes longest begins first, so that no process is left alone at the end.
    order = sorted(names, key=lambda name: -EXPENSIVE.get(name, 1.0))
    _at_once([_runs(totals[name], names, options) for name in order], options.processes)
    sys.stdout.write(_table(list(totals.values()), {name: TARGETS[name].what for name in names}))
    found = sorted(set(options.findings.glob("*.input")) - begun)
    sys.stdout.write("".join(f"{path}: {_first_line(path)}\n" for path in found))
    return 1 if found else 0


def _best_engine() -> str:
    return "random" if importlib.util.find_spec("atheris") is None else "atheris"


def _first_line(path: Path) -> str:
    return path.with_suffix(".txt").read_text("utf-8").partition("\n")[0]


def _cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _at_once(runs: list[Iterator[None]], processes: int) -> None:
    """Let so many runs advance together, without threads: a process that has some must not fork."""
    waiting, running = deque(runs), deque[Iterator[None]]()
    ended = object()
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(waiting.popleft())
        for _ in range(len(running)):
            run = running.popleft()
            if next(run, ended) is not ended:
                running.append(run)
        time.sleep(0.02)


def _runs(total: Total, names: list[str], options: argparse.Namespace) -> Iterator[None]:
    """Run children of one target until its inputs or its time are used up."""
    weights = {one: EXPENSIVE.get(one, 1.0) for one in names}
    share = weights[total.name] / sum(weights.values())
    seconds = options.seconds * share * min(options.processes, len(names))
    wanted = None if options.inputs is None else int(options.inputs / weights[total.name])
    begun = time.monotonic()
    while len(total.crashes) < _MOST_CRASHES:
        left_s = seconds - (time.monotonic() - begun)
        left = None if wanted is None else wanted - total.inputs
        if left is not None and left <= 0:
            break
        if left is None and left_s < 0.5:
            break
        yield from _run_child(total, left, max(left_s, 1.0), options)
    total.seconds = time.monotonic() - begun


def _run_child(
    total: Total, inputs: int | None, seconds: float, options: argparse.Namespace
) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_folder()) as name:
        folder = Path(name)
        state = State(folder / "state", create=True)
        code = yield from _ended(_forked(total, inputs, seconds, folder, options), seconds, inputs)
        log = (folder / "log").read_text("utf-8", "replace")
        done, refused, slowest, growth, data = state.read()
    total.inputs += done
    total.refused += refused
    total.slowest_s = max(total.slowest_s, slowest)
    total.growth = max(total.growth, growth)
    if code != 0 or not done:
        total.crashes.append(f"exit code {code}")
        _keep_crash(total, code, data, log[-3000:], options.findings)


def _forked(
    total: Total, inputs: int | None, seconds: float, folder: Path, options: argparse.Namespace
) -> int:
    """Start a child, which has all modules already; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # What a target keeps in the temporary folder is gone with the child, however it ends.
        tempfile.tempdir = str(folder)
        _child(total, inputs, seconds, folder, options)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(child: int, seconds: float, inputs: int | None) -> Generator[None, None, int]:
    """Wait for a child; its exit code, negative where a signal ended it."""
    end = None if inputs is not None else time.monotonic() + seconds + _CHILD_MARGIN_S
    while True:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            end = None
        yield


def _keep_crash(total: Total, code: int, data: bytes, text: str, folder: Path) -> None:
    from fuzz_guard import Finding, kept

    why = f"the process ended with code {code} ({len(total.crashes)})"
    kept(folder, Finding(total.name, why, text), data)


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _table(totals: list[Total], what: dict[str, str]) -> str:
    rows = [("target", "reads", "inputs", "refused", "s", "slowest s", "memory MiB", "ends")]
    rows += [
        (one.name, what[one.name], f"{one.inputs:,}", f"{one.refused:,}", f"{one.seconds:.0f}",
         f"{one.slowest_s:.2f}", f"{one.growth >> 20}", str(len(one.crashes)))
        for one in totals
    ]  # fmt: skip
    every = sum(one.inputs for one in totals)
    rows.append(("all", "", f"{every:,}", "", f"{sum(o.seconds for o in totals):.0f}", "", "", ""))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "".join(
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def _child(
    total: Total, inputs: int | None, seconds: float, folder: Path, options: argparse.Namespace
) -> None:
    """Run one target in this process."""
    from fuzz_guard import Guard, kept
    from fuzz_targets import TARGETS

    target = TARGETS[total.name]
    seed = (options.seed + 7919 * len(total.crashes)) % (1 << 31) or 1
    work = folder / "work"
    work.mkdir()
    guard = Guard(target, work)
    state = State(folder / "state")

    def run(data: bytes) -> None:
        state.begin(data)
        finding = guard.run(data)
        state.done(guard.inputs, guard.refused, guard.slowest_s, guard.largest_growth)
        if finding is not None:
            kept(options.findings, finding, data)

    seeds = target.seeds()
    for one in seeds:
        run(one)
    if options.engine == "random" or not seeds:
        _random_runs(run, target, seeds, random.Random(seed), inputs, seconds)
    else:
        corpus = options.corpus or folder / "corpus"
        limit = f"-max_total_time={int(seconds)}" if inputs is None else f"-runs={inputs}"
        _guided_runs(run, target, seeds, corpus / target.name, [f"-seed={seed}", limit])


@contextlib.contextmanager
def _instrumented(engine: str) -> Iterator[None]:
    if engine != "atheris":
        yield
        return
    import atheris

    with atheris.instrument_imports(include=["ccltui"]):
        yield


def _import_parsers() -> None:
    """Import every module of the readers, as functions import some when they are called."""
    import ccltui.parsers

    for module in pkgutil.walk_packages(ccltui.parsers.__path__, "ccltui.parsers."):
        importlib.import_module(module.name)


def _random_runs(
    run: Callable[[bytes], None],
    target: Target,
    seeds: list[bytes],
    dice: random.Random,
    inputs: int | None,
    seconds: float,
) -> None:
    """Mutate the seeds at random, without regard to coverage."""
    end = time.monotonic() + seconds
    done = len(seeds)
    while seeds and (done < inputs if inputs is not None else time.monotonic() < end):
        data = dice.choice(seeds)
        for _ in range(dice.choice((1, 1, 2, 4))):
            data = target.mutate(dice, data)
        run(data[: _longest(seeds)])
        done += 1


def _longest(seeds: list[bytes]) -> int:
    """Return the length of the longest input: long ones take time and show no more."""
    return 2 * max(2048, *map(len, seeds))


def _guided_runs(
    run: Callable[[bytes], None],
    target: Target,
    seeds: list[bytes],
    corpus: Path,
    arguments: list[str],
) -> None:
    """Let libFuzzer choose what is mutated, from a corpus of all that reached new code."""
    import atheris

    corpus.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(one)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        dice = random.Random(seed)
        kind = dice.random()
        if kind < 0.1:
            return bytes(atheris.Mutate(data, max_size))
        if kind < 0.5:  # the corpus fills with refused inputs, which reach no further code
            data = dice.choice(seeds)
        return target.mutate(dice, data)[:max_size]

    options = [
        *("fuzz", *arguments, f"-max_len={_longest(seeds)}", "-len_control=0"),
        *("-timeout=120", "-rss_limit_mb=6000", f"-artifact_prefix={corpus.parent}/", str(corpus)),
    ]
    atheris.Setup(options, run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
