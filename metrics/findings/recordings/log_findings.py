"""Findings in logs, tables and records beside traces: hangs, runs, benchmarks, the start of NCCL.

A log does not show causes on a device, but parts that its program times itself, waits for data,
ranks that differ in a part, and stretches in which steps were slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import median
from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.confidence import Level, Sure
from ccltui.metrics.findings.culprits import details_of
from ccltui.metrics.findings.finding import Answer, Evidence, Finding, Where
from ccltui.metrics.findings.recordings.failure_findings import (
    FOLLOWS,
    failure_finding,
    failures_of,
)
from ccltui.metrics.findings.recordings.hang_window import hangs_of_view
from ccltui.metrics.findings.recordings.inspector_findings import (
    inspector_findings,
    inspector_unknown,
)
from ccltui.metrics.findings.sentences import RECORD
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.metrics.runs.run_files import read_runs
from ccltui.metrics.view.words import sentence
from ccltui.metrics.workload.serving_latency import Run, serving_runs, typical
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.numbers import binary_size, counted, percent, time_text
from ccltui.parsers.runs import TRAINING_LOG
from ccltui.parsers.runs.training_log import StepTimers, read_timers
from ccltui.parsers.safe_text import listed
from ccltui.parsers.text.file_sample import read_bounded

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.runs.training_log import TrainingLog


_NAMES_NOBODY: Final = frozenset({"nothing", "abstained", "late"})
"""Kinds of records of a hang that come after what else a directory holds."""
_NO_SAVING: Final = "a log does not show how much time could be saved"
_UNKNOWN: Final = (
    "Logs and dumps show how long a step takes or where the job hangs; only a trace shows what "
    "is slow in a step."
)

_OF_BENCHMARKS: Final = (
    "A benchmark shows what links reach when nothing else runs; what a job loses to them only a "
    "trace of the job shows."
)
_OF_SERVING: Final = (
    "Latencies of requests do not show where the server spends the time; traces of it do."
)


def hang_finding(view: View) -> Finding | None:
    """Return the hang that logs or RAS tell of, None where they tell of none."""
    found = next(iter(hangs_of_view(view)), None)
    if found is None:
        return None
    sure: Level = found.sure
    return Finding(
        kind="hang",
        text=sentence(found.text),
        more=" ".join(sentence(one) for one in found.more[:_MOST_FACTS]),
        where=Where(ranks=found.ranks, group=found.group or None),
        saves_why="a job that hangs has no step time"
        if found.is_hung
        else "such a record does not show how long a step takes",
        sure=Sure(what=sure, who=sure if found.ranks else "unknown"),
        evidence=(Evidence("hang_verdict", "num_ranks", float(found.num_blamed), "ranks"),),
        do=found.do,
    )


_MOST_FACTS: Final = 3


def names_culprits(view: View) -> bool:
    """Return whether a hang is told of that stands before everything else that is recorded."""
    found = hang_of(view.job.discovery, view.job.store)
    return found is not None and found.kind not in _NAMES_NOBODY


def abstains(view: View) -> bool:
    """Return whether records are there that do not tell whether, or where, the job hangs."""
    found = hang_of(view.job.discovery, view.job.store)
    return found is not None and found.kind == "abstained"


def log_answer(view: View) -> Answer | None:
    """Return what logs, tables and records beside traces state, None where there are none."""
    inspected, tested = inspector_findings(view), [*_benchmark(view)]
    served = [*_serving(view)]
    found = [
        *_ended(view),
        *inspected,
        *tested,
        *served,
        *_memory(view),
        *_comms_summary(view),
        *_log_parts(view),
        *_run(view),
    ] or [*_nccl_start(view)]
    if not found:
        return None
    unknown = inspector_unknown(view) if inspected else ()
    if len(found) > len(inspected) + len(tested) + len(served):
        unknown = (*unknown, _UNKNOWN)
    elif tested:
        unknown = (*unknown, _OF_BENCHMARKS)
    if served:
        unknown = (*unknown, _OF_SERVING)
    return Answer(recording="logs", findings=tuple(found), unknown=unknown)


def _ended(view: View) -> Iterator[Finding]:
    """Yield what ended the job and where it hangs, what came first before what followed.

    Lost connections follow from a time-out, and a time-out from the end of a rank.
    """
    hang, failure = hang_finding(view), failure_finding(view)
    if failure is None or hang is None:
        yield from (one for one in (failure, hang) if one is not None)
        return
    if failures_of(view)[0].cause in FOLLOWS:
        yield hang
        return
    # a rank without a word is less than one of which is known why it ended
    is_told = hang.sure.who in ("high", "medium")
    is_told &= next(iter(hangs_of_view(view))).kind != "printed_nothing"
    yield from (hang, failure) if is_told else (failure, hang)


def _benchmark(view: View) -> Iterator[Finding]:
    found = details_of(view, "nccl_tests_busbw")
    best = found.get("max_busbw_GBps")
    if best is None:
        return
    tests: Mapping[str, Any] = next(
        (one for one in found["tests"] if one["max_busbw_GBps"] == best), {}
    )
    ranks = f" on {counted(tests['num_ranks'], 'rank')}" if tests.get("num_ranks") else ""
    is_checked = any(one["num_wrong"] is not None for one in found["tests"])
    wrong = counted(found["num_wrong"] or 0, "wrong value") if is_checked else "values not checked"
    name = str(found["collective"]).replace("_", "-")
    name = "the test" if name == "unknown" else name
    if not best:  # a program for each process, each a job of one rank
        yield _of_log(
            "nccl-tests moved nothing between ranks: each process ran a test of its own",
            f"at {found['at_bytes']:,} bytes; {wrong}",
            Evidence("nccl_tests_busbw", "max_busbw_GBps", best, "GB/s"),
            _ALONE_DO,
        )
        return
    yield from _slow_test(found["tests"])
    rates: dict[str, float] = {}
    for one in found["tests"]:
        of_test = str(one["collective"]).replace("_", "-")
        rates[of_test] = max(rates.get(of_test, 0.0), one["max_busbw_GBps"] or 0.0)
    others = [f"{of_test} {rate:.5g} GB/s" for of_test, rate in sorted(rates.items())
              if rate and of_test not in (name, "unknown")]  # fmt: skip
    beside = f"; other tests: {listed(others, _SHOWN)}" if others else ""
    yield _of_log(
        f"{name} reaches at most {best:.5g} GB/s of bus bandwidth{ranks} (nccl-tests)",
        f"at {found['at_bytes']:,} bytes; {wrong}{beside}",
        Evidence("nccl_tests_busbw", "max_busbw_GBps", best, "GB/s"),
        _WRONG_DO if found["num_wrong"] else _BENCHMARK_DO,
    )


def _slow_test(tests: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield the test that is slow among those of the same operation, ranks, hosts and sizes.

    Tests of pairs of hosts show a bad host or link in that way.
    """
    alike: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in tests:
        if one["num_ranks"]:
            alike.setdefault(tuple(one[name] for name in _ALIKE), []).append(one)
    slow: list[tuple[float, Finding]] = []
    for same in alike.values():
        rates = sorted(one["max_busbw_GBps"] or 0.0 for one in same)
        middle = median(rates) or 0.0
        if len(rates) < _LEAST_ALIKE or not middle or rates[0] >= _SLOW_TEST * middle:
            continue
        worst = min(same, key=lambda one: one["max_busbw_GBps"] or 0.0)
        number = sum(rate < _SLOW_TEST * middle for rate in rates)
        more = f"{number:,} of {len(rates):,} are so slow" if number > 1 else ""
        operation = str(worst["collective"]).replace("_", "-")
        text = (
            f"{operation} of {worst['file']} reaches {rates[0]:.4g} GB/s of bus bandwidth, "
            f"the median of {len(rates):,} such tests is {middle:.4g} GB/s (nccl-tests)"
        )
        slow.append((rates[0] / middle, _of_log(text, more, do=_SLOW_TEST_DO)))
    yield from (one for _, one in sorted(slow, key=lambda pair: pair[0])[:1])


_ALIKE: Final = ("collective", "num_ranks", "num_hosts", "num_sizes", "largest_bytes")
"""What tests share whose bandwidths are compared: between hosts they are others than within one."""
_LEAST_ALIKE: Final = 3
_SLOW_TEST: Final = 0.8
"""Share of the median bandwidth below which a test is slow: repetitions differ by some percent."""
_SLOW_TEST_DO: Final = (
    "Repeat this test, then test its hosts with others: the host or the link that is in every slow "
    "pair is the bad one. Look at its adapters and cables (ibstat, error counters) and at its GPUs."
)
_ALONE_DO: Final = (
    "Build nccl-tests with MPI=1 and start it with mpirun, or give one process several devices "
    "(-g): bandwidths of one rank are those of its own memory."
)
_BENCHMARK_DO: Final = (
    "Compare with the bandwidth that the links have, and with the same test on fewer hosts: half "
    "of it hints at one bad host or link. --metric nccl_tests_busbw --detail lists all sizes."
)
_WRONG_DO: Final = (
    "Wrong values are data that arrived damaged: repeat the test on pairs of hosts until one pair "
    "alone shows them, and look at its GPUs and adapters (nvidia-smi -q, dmesg)."
)


def _serving(view: View) -> Iterator[Finding]:
    """Yield how long requests waited for tokens, else that all of them failed."""
    runs, _ = serving_runs(view)
    told = [run for run in runs if run.of("ttft") is not None]
    failed = [run for run in runs if run.experiment.num_failed and run not in told]
    if told:
        yield _latency(told)
    for run in failed[:1]:
        number = run.experiment.num_failed
        yield _of_log(
            f"{'the request' if number == 1 else f'all {number:,} requests'} of the serving "
            f"benchmark failed ({run.name}): it measured nothing",
            f"{counted(len(failed), 'experiment')} went so" if len(failed) > 1 else "",
            do=_FAILED_DO,
        )


def _latency(runs: Sequence[Run]) -> Finding:
    """Return the latencies of one experiment, and between what those of the others lie."""
    first = runs[0]
    found = first.of("ttft")
    value = typical(found) or 0.0
    kind = "a median" if found is not None and found["p50"] is not None else "an average"
    of_tokens = typical(first.of("tpot"))
    each = f", the others every {time_text(of_tokens)}" if of_tokens else ""
    experiment = first.experiment
    rate = experiment.tokens_per_s
    requests = counted(experiment.num_requests, "request") if experiment.num_requests else ""
    if requests and experiment.num_failed:
        requests += f", {experiment.num_failed:,} more failed"
    more = [requests, f"{rate:,.4g} tokens of output a second" if rate else ""]
    if len(runs) > 1:
        ordered = sorted(runs, key=lambda run: typical(run.of("ttft")) or 0.0)
        ends = [f"{time_text(typical(run.of('ttft')) or 0.0)} ({run.name})"
                for run in (ordered[0], ordered[-1])]  # fmt: skip
        more.append(f"{len(runs):,} experiments: between {ends[0]} and {ends[1]}")
    return _of_log(
        f"the first token of a request takes {kind} of {time_text(value)}{each} ({first.name})",
        "; ".join(one for one in more if one),
        Evidence("ttft", "p50_ttft_ms", value, "ms"),
        _SERVING_DO,
    )


_SERVING_DO: Final = (
    "Compare with other rates of requests and concurrencies, as a queue makes the first token "
    "late; record some passes with the server's profiler (vLLM and SGLang: /start_profile) to see "
    "what is slow in a pass."
)
_FAILED_DO: Final = (
    "Look at the server's log and at the address, the path and the name of the model that the "
    "benchmark uses: no time of such an experiment can be used."
)


_LESS_MEMORY: Final = (
    "Look at the places with most memory in use (--metric memory_peaks --detail); where much is "
    "free for reuse, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
)


def _memory(view: View) -> Iterator[Finding]:
    """Yield who ran out of memory, else the device with most reserved memory."""
    from ccltui.parsers.side.memory_snapshot import NO_STACK  # noqa: PLC0415

    found = details_of(view, "memory_peaks")
    rows: Sequence[Mapping[str, Any]] = found.get("devices") or ()
    if not rows:
        return
    failed = [row for row in rows if row["oom"]]
    row = (failed or rows)[0]
    more = [f"{binary_size(row['inactive'])} of it are free for reuse, at most "
            f"{binary_size(row['largest_inactive'])} in one block"]  # fmt: skip
    more += [
        f"{binary_size(one['size_bytes'])} in use are from {one['place']}"
        for one in row["stacks"][:1]
        if one["place"] != NO_STACK
    ]
    held = f"{binary_size(row['reserved'])} of device {row['device']} reserved"
    if failed:
        last = row["oom"][-1]
        free = last["device_free"]
        left = "" if free is None else f" with {binary_size(free)} free on the device"
        ranks = found["oom_ranks"]
        others = f"; {counted(len(ranks), 'rank')} did" if len(ranks) > 1 else ""
        text = (
            f"{_process(row)} ran out of memory: it asked for {binary_size(last['asked'])}{left} "
            f"and has {held}{others}"
        )
        if row["largest_inactive"] < last["asked"] <= row["inactive"]:
            more.insert(0, "the free blocks together would hold it: the memory is fragmented")
    else:
        peak = row["peak_reserved"]
        most = "" if peak is None else f", at most {binary_size(peak)} since the oldest event"
        text = f"{_process(row)} has {held}{most}"
    name = "num_oom" if failed else "peak_reserved"
    unit = "" if failed else "bytes"
    yield _of_log(text, " ".join(map(sentence, more)),
                  Evidence("memory_peaks", name, float(found[name]), unit),
                  _LESS_MEMORY if failed else RECORD)  # fmt: skip


def _process(row: Mapping[str, Any]) -> str:
    return f"rank {row['rank']}" if str(row["rank"]).isdecimal() else str(row["rank"])


def _comms_summary(view: View) -> Iterator[Finding]:
    """Yield what the comms logger of DeepSpeed sums up, the operation with most time first."""
    found = details_of(view, "comms_summary")
    for number, row in enumerate((found.get("operations") or ())[:_MOST_FACTS]):
        name = str(row["operation"]).replace("_", "-")
        waited = row["waited_ms"]
        split = "" if waited is None else f", {time_text(waited)} of it waiting for the last rank"
        yield _of_log(
            f"{counted(row['count'], f'{name} of', f'{name}s of')} {row['size']} take "
            f"{time_text(row['total_ms'])}{split} (DeepSpeed's summary)",
            "",
            Evidence("comms_summary", f"operations.{number}.total_ms", row["total_ms"], "ms"),
            _LATE_DO if waited and waited >= _MUCH_WAITED * row["total_ms"] else _SUMMARY_DO,
        )


_MUCH_WAITED: Final = 0.2
"""Share of the time of an operation from which waiting for the last rank is worth a look."""
_LATE_DO: Final = (
    "Find the rank that the others wait for: record a few steps on all ranks with the PyTorch "
    "profiler (docs/collect.md has scripts), or switch NCCL Inspector on for hours "
    "(docs/inspector.md)."
)
_SUMMARY_DO: Final = (
    "Look whether computation hides these calls (overlap_comm and the bucket sizes of ZeRO): a "
    "summary has no times, a trace of a few steps has."
)


def _run(view: View) -> Iterator[Finding]:
    yield from _step_time(details_of(view, "run_step_time"))
    rate = details_of(view, "run_throughput")
    if rate.get("tokens_per_s"):
        value, each = rate["tokens_per_s"], rate.get("tokens_per_s_per_gpu")
        yield _of_log(
            f"the run {rate['run']} trains {value:,.0f} tokens a second",
            f"{each:,.0f} a GPU" if each else "",
            Evidence("run_throughput", "tokens_per_s", value, "tokens/s"),
        )
    elif rate.get("samples_per_s"):
        value = rate["samples_per_s"]
        yield _of_log(
            f"the run {rate['run']} trains {value:,.4g} samples a second",
            "its log states no tokens a second of the job",
            Evidence("run_throughput", "samples_per_s", value, "samples/s"),
        )
    losses = details_of(view, "run_loss")
    if losses.get("last_train_loss") is not None:
        value = losses["last_train_loss"]
        yield _of_log(
            f"the last training loss of the run {losses['run']} is {value:.5g}",
            "",
            Evidence("run_loss", "last_train_loss", value, "nats"),
        )


def _step_time(times: Mapping[str, Any]) -> Iterator[Finding]:
    middle, tail = times.get("step_time_p50_ms"), times.get("step_time_p95_ms")
    name = "step_time_p50_ms" if middle else "step_time_mean_ms"
    value = times.get(name)
    if not value:
        return
    many = times.get("steps_per_sample") or 1
    number = times.get("num_samples")
    text = f"takes {'a median of ' if middle else ''}{time_text(value)}"
    more = f"{counted(number, 'step')} measured" if number else ""
    if not middle:
        text += " on average"
        more = "its records state no spread of the steps"
    elif many > 1:
        recorded = f"{counted(number or 0, 'average')} {'is' if number == 1 else 'are'} recorded"
        more = f"{recorded}: a single slow step does not show in an average"
        text += f" (averages of {many} steps)"
    late = f", {time_text(tail)} at the 95th percentile" if tail and middle else ""
    if tail and time_text(tail) == time_text(value):
        late = ""
    yield _of_log(
        f"a step of the run {times['run']} {text}{late}",
        more,
        Evidence("run_step_time", name, value, "ms"),
    )


def _of_log(text: str, more: str, evidence: Evidence | None = None, do: str = RECORD) -> Finding:
    return Finding(
        kind="run_log",
        text=sentence(text),
        more=sentence(more),
        saves_why=_NO_SAVING,
        sure=Sure(what="high"),
        evidence=() if evidence is None else (evidence,),
        do=do,
    )


_SLOW: Final = 3.0
"""Times the median from which a line is of slow steps: warm caches and checkpoints stay below."""
_LEAST_LOST: Final = 0.05
"""Share of the time of all lines from which slow ones are worth a finding."""
_LEAST_LINES: Final = 3
_MUCH_DATA: Final = 0.1
_UNEVEN: Final = 0.1
"""Share of a step by which ranks differ in a part from which the part is worth a finding."""
_PART_WORDS: Final = {
    "forward": "the forward passes",
    "backward": "the backward passes",
    "reduction": "reducing gradients",
    "optimizer": "the optimizer",
}
_PART_DO: Final = {
    "reduction": "Let it overlap the backward passes (overlap_comm), and look at the bucket sizes.",
    "optimizer": "Use a fused optimizer, and look whether its states are offloaded to the host or "
    "gathered between steps (ZeRO, allgather_bucket_size).",
}
_TRACE: Final = "Record some steps with a profiler on all ranks to see what is slow in it."


def _log_parts(view: View) -> Iterator[Finding]:
    """Yield what the logs of runs show of the parts of a step and of slow steps."""
    for run in read_runs(view.job.discovery)[:1]:
        if run.log is not None:
            yield from _slow_lines(run.log)
            yield from _data(run.log)
    for file in view.job.discovery.files:
        if file.format is TRAINING_LOG and file.duplicate_of is None and file.problem is None:
            yield from _of_timers(_timers(file))
            return


@lru_cache(maxsize=8)
def _timers(file: FoundFile) -> StepTimers:
    try:
        with contained(file.path):
            return read_timers(read_bounded(Path(file.real_path), shown=file.path))
    except TraceError:  # stated by doctor
        return StepTimers()


def _slow_lines(log: TrainingLog) -> Iterator[Finding]:
    """Yield the stretch of steps that took several times as long as the others."""
    times = np.where(np.isfinite(log.time_s), log.time_s, 0.0)[1:]  # the first has the start-up
    usable = times[times > 0]
    if len(usable) < _LEAST_LINES - 1:
        return
    middle = float(np.sort(usable)[(len(usable) - 1) // 2])
    slow = np.flatnonzero(times > _SLOW * middle)
    lost = float((times[slow] - middle).sum() / usable.sum()) if len(slow) else 0.0
    if lost < _LEAST_LOST:
        return
    worst = int(slow[np.argmax(times[slow])])
    first, last = int(log.step[worst]) + 1, int(log.step[worst + 1])
    if log.steps_per_line == 1:
        first = last
    which = f"step {last:,} takes" if first == last else f"steps {first:,} to {last:,} take"
    each = "" if first == last else " each"
    ratio = float(times[worst]) / middle
    others = (
        f"; {counted(len(slow), 'line')} of {len(usable):,} are so slow" if len(slow) > 1 else ""
    )
    yield Finding(
        kind="slow_steps",
        text=sentence(
            f"{which} {time_text(float(times[worst]) * 1e3)}{each}, {ratio:,.3g} times as long as "
            "the others"
        ),
        more=sentence(f"{percent(lost)} of the time of the log is lost in them{others}"),
        where=Where(steps=(first,) if first == last else (first, last)),
        saves_why=_NO_SAVING,
        sure=Sure(what="high"),
        do="Look what happened then: checkpoints, evaluation, storage, other jobs on the hosts, "
        "and the log of the machines (dmesg, switches) at that time.",
    )


def _data(log: TrainingLog) -> Iterator[Finding]:
    """Yield how long a step waits for data, where its program times that."""
    both = np.isfinite(log.data_ms) & np.isfinite(log.time_s) & (log.time_s > 0)
    if not both.any():
        return
    data_ms = float(median_along(log.data_ms[both]))
    step_ms = float(median_along(log.time_s[both])) * 1e3
    share = data_ms / step_ms
    if share < _MUCH_DATA:
        return
    # a program may time both one after the other: then there is no part of a step to state
    text = f"a step waits {time_text(data_ms)} of {time_text(step_ms)} for data, {percent(share)}"
    if share > 1:
        text = (
            f"a step waits {time_text(data_ms)} for data, longer than the {time_text(step_ms)} "
            "that the log states for a step"
        )
    yield Finding(
        kind="data_loading",
        text=sentence(text),
        more=sentence("both are medians over the lines of the log"),
        share=share if share <= 1 else None,
        saves_why=_NO_SAVING,
        sure=Sure(what="high"),
        do="Use more workers of the data loader and prefetch, pin memory, and look at the storage "
        "and at what is decoded on the host.",
    )


def _of_timers(timers: StepTimers) -> Iterator[Finding]:
    yield from _uneven(timers)
    parts = {name: median(times) or 0.0 for name, times in timers.parts.items() if times}
    whole = sum(parts.values())
    if whole > 0:
        yield _largest_part(parts, whole, len(timers.parts["forward"]), is_micro=timers.is_micro)


def _largest_part(
    parts: Mapping[str, float], whole: float, count: int, *, is_micro: bool
) -> Finding:
    ordered = sorted(parts.items(), key=lambda one: -one[1])
    name, most = ordered[0]
    step = "micro-step" if is_micro else "step"
    rest = ", ".join(f"{_PART_WORDS[one]} {percent(ms / whole)}" for one, ms in ordered[1:] if ms)
    takes = "take" if name in ("forward", "backward") else "takes"
    return _of_log(
        f"{_PART_WORDS[name]} {takes} {percent(most / whole)} of a {step} of "
        f"{time_text(whole)} (DeepSpeed's timers)",
        f"medians of {counted(count, step)}: {rest}" if rest else "",
        do=_PART_DO.get(name, _TRACE),
    )


_HOLDS_OTHERS: Final = ("forward-backward", "interval-time")
"""Timers of Megatron around others."""
_WAITS: Final = ("recv", "send", "all-reduce", "all-gather", "reduce-scatter", "params")
"""Words of timers in which a rank may wait: the rank with the least is the last one to come."""


def _uneven(timers: StepTimers) -> Iterator[Finding]:
    """Yield the part of a step in which ranks differ most, where Megatron prints both ends."""
    middles = {
        name: (median([one for one, _ in rows]) or 0.0, median([one for _, one in rows]) or 0.0)
        for name, rows in timers.ranges.items()
    }
    whole = middles.get("forward-backward", (0.0, 0.0))[1] + middles.get("optimizer", (0.0, 0.0))[1]
    whole = whole or sum(most for _, most in middles.values())
    own = {name: ends for name, ends in middles.items()
           if name not in _HOLDS_OTHERS and not any(word in name for word in _WAITS)}  # fmt: skip
    if not own or not whole:
        return
    name, (least, most) = max(own.items(), key=lambda one: one[1][1] - one[1][0])
    apart = (most - least) / whole
    if apart < _UNEVEN:
        return
    yield _of_log(
        f"ranks take {time_text(least)} to {time_text(most)} for {name}: they differ by "
        f"{percent(apart)} of a step (Megatron's timers)",
        "which rank is slow is not in the log: --timing-log-option all prints every rank",
        do="Compare the ranks: layers of each pipeline stage, micro-batches of unequal length, and "
        "clocks of the devices. " + _TRACE,
    )


_SHOWN: Final = 4
_START_DO: Final = (
    "If the job hangs, look at the ranks that are missing here, at the network that NCCL chose "
    "(NCCL_SOCKET_IFNAME, NCCL_IB_HCA), and test it alone with nccl-tests; where NCCL has started, "
    "PyTorch's flight recorder shows the collective (TORCH_NCCL_TRACE_BUFFER_SIZE=2000)."
)


def _nccl_start(view: View) -> Iterator[Finding]:
    """Yield on how many ranks NCCL has started, by its logs."""
    found = [log for _, log in read_cluster(view.job.discovery).logs]
    if not found:
        return
    world = max((log.world_size or 0 for log in found), default=0)
    done = sum(log.initialised for log in found)
    hosts = list(dict.fromkeys(host for log in found for host in log.hosts))
    transports = list(dict.fromkeys(name for log in found for name in log.transports))
    networks = list(dict.fromkeys(name for log in found for name in log.networks))
    on_hosts = f" on {counted(len(hosts), 'host')}" if hosts else ""
    text = f"NCCL's log{on_hosts} has no error"
    communicators = max((log.communicators for log in found), default=0)
    if world and done and communicators <= 1:
        text += f"; {min(done, world):,} of {world:,} ranks print that their start is complete"
    elif done:
        text += f"; {counted(done, 'start is', 'starts are')} complete"
    else:
        text += ", and no rank prints that its start is complete"
    more = [
        f"links between ranks: {listed(transports, _SHOWN)}" if transports else "",
        f"networks: {listed(networks, _SHOWN)}" if networks else "",
    ]
    yield Finding(
        kind="run_log",
        text=sentence(text),
        more=" ".join(sentence(one) for one in more if one),
        saves_why="such a log has no times",
        sure=Sure(what="high"),
        do=_START_DO,
    )
