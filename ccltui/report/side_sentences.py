"""Sentences about a directory without traces: what its logs, tables and records say.

Every number in them is one of a metric's result; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from ccltui.metrics.result import Result
from ccltui.report.overview_text import details_of

METRICS: Final = (
    "hang_verdict",
    "nccl_tests_busbw",
    "comms_summary",
    "run_step_time",
    "run_throughput",
    "run_loss",
)
"""Metrics that the sentences are about, the most important first."""
_MOST_FACTS: Final = 4


class SideSentence(Struct, frozen=True):
    """One statement, and the metric, key and value that it is of."""

    text: str
    metric: str
    key: str
    value: object = None
    unit: str = ""


def side_sentences(results: Mapping[str, Result]) -> tuple[SideSentence, ...]:
    """Return what the files beside traces say, the first a headline."""
    return (*_hang(results), *_table(results), *_logged(results), *_run(results))


def side_actions(results: Mapping[str, Result]) -> tuple[str, ...]:
    """Return what to do about it."""
    do = details_of(results, "hang_verdict").get("do")
    return (str(do),) if do else ()


def _hang(results: Mapping[str, Result]) -> Iterator[SideSentence]:
    found = details_of(results, "hang_verdict")
    if not found.get("text"):
        return
    yield SideSentence(
        f"{found['text']} Confidence: {found['sure']}.",
        "hang_verdict", "num_ranks", found["num_ranks"], "ranks",
    )  # fmt: skip
    for number, text in enumerate(found["more"][:_MOST_FACTS]):
        yield SideSentence(str(text), "hang_verdict", f"more.{number}", text)


def _table(results: Mapping[str, Result]) -> Iterator[SideSentence]:
    found = details_of(results, "nccl_tests_busbw")
    if found.get("max_busbw_GBps") is None:
        return
    test: Mapping[str, Any] = next(
        (one for one in found["tests"] if one["max_busbw_GBps"] == found["max_busbw_GBps"]), {}
    )
    ranks = f" on {test['num_ranks']} ranks" if test.get("num_ranks") else ""
    checked = found.get("num_wrong")
    wrong = "values were not checked" if checked is None else f"{checked} wrong values"
    if found["num_wrong"] == 0 and all(one["num_wrong"] is None for one in found["tests"]):
        wrong = "values were not checked"
    yield SideSentence(
        f"nccl-tests measured at most {found['max_busbw_GBps']:.5g} GB/s of bus bandwidth in "
        f"{found['collective']}{ranks}, at {found['at_bytes']:,} bytes; {wrong}.",
        "nccl_tests_busbw", "max_busbw_GBps", found["max_busbw_GBps"], "GB/s",
    )  # fmt: skip


def _logged(results: Mapping[str, Result]) -> Iterator[SideSentence]:
    found = details_of(results, "comms_summary")
    for number, row in enumerate((found.get("operations") or ())[:_MOST_FACTS]):
        waited = row["waited_ms"]
        split = "" if waited is None else f", {waited:,.5g} ms of it waiting for the last rank"
        yield SideSentence(
            f"DeepSpeed logged {row['total_ms']:,.5g} ms in {row['count']:,} {row['operation']} of "
            f"{row['size']}{split}.",
            "comms_summary", f"operations.{number}.total_ms", row["total_ms"], "ms",
        )  # fmt: skip


def _run(results: Mapping[str, Result]) -> Iterator[SideSentence]:
    times = details_of(results, "run_step_time")
    if times.get("step_time_p50_ms") is not None:
        yield SideSentence(
            f"A step of {times['run']} takes {times['step_time_p50_ms']:,.5g} ms in the median.",
            "run_step_time", "step_time_p50_ms", times["step_time_p50_ms"], "ms",
        )  # fmt: skip
    rate = details_of(results, "run_throughput")
    if rate.get("tokens_per_s") is not None:
        yield SideSentence(
            f"{rate['run']} trains {rate['tokens_per_s']:,.5g} tokens/s.",
            "run_throughput", "tokens_per_s", rate["tokens_per_s"], "tokens/s",
        )  # fmt: skip
    losses = details_of(results, "run_loss")
    if losses.get("last_train_loss") is not None:
        yield SideSentence(
            f"The last training loss of {losses['run']} is {losses['last_train_loss']:.5g}.",
            "run_loss", "last_train_loss", losses["last_train_loss"], "nats",
        )  # fmt: skip
