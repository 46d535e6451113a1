"""Step lines of training programs: how each prints its steps, and the numbers that a line states.

A dialect is a function that yields the lines of a text in their order. Patterns begin with plain
characters, which are searched for fast; the line is cut out around a match, up to a bounded length.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from ccltui.parsers.text.json_fields import LARGEST_NUMBER, finite, finite_or_nan

Dialect = Literal[
    "torchtitan",
    "nemo",
    "megatron",
    "nanotron",
    "deepspeed",
    "huggingface",
    "trainer_state",
    "mlperf",
    "plain",
    "counted",
    "progress",
    "none",
]

_NUMBER: Final = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3}){1,6}(?!,?\d)|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)"
)
"""A comma is in a number only where it has groups of three digits before its decimal point."""
_TITAN: Final = re.compile(rf"step:\s*(?P<step>\d{{1,12}})\s+loss:\s*(?P<loss>{_NUMBER})")
_MEGATRON: Final = re.compile(
    r"iteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12}|infinity)\s*\|"
)
_BRIDGE: Final = re.compile(rf"GPU utilization:\s*({_NUMBER})\s*MODEL_TFLOP/s/GPU")
_BRIDGE_BEFORE: Final = 400
"""Characters before a line of Megatron Bridge in which it prints the rate of the same steps."""
_DEEPSPEED: Final = re.compile(
    rf"global_step=(?P<step>\d{{1,12}}),\s*RunningAvgSamplesPerSec=(?P<rate>{_NUMBER})?"
)
_OLD_DEEPSPEED: Final = re.compile(
    rf"\b\d{{1,9}}/(?P<step>\d{{1,12}}), SamplesPerSec=(?P<rate>{_NUMBER})"
)
_NANOTRON: Final = re.compile(
    r"iteration: (?P<step>\d{1,12}) / (?P<total>\d{1,12}) \|[^\n]{0,200}?"
    r"elapsed_time_per_iteration_ms: (?P<time>[\d.]{1,12}[KMB]?)"
)
_SHORT: Final = re.compile(
    r"\b(tokens_per_sec|tokens_per_sec_per_gpu|lm_loss|model_tflops_per_gpu|global_batch_size): "
    r"([\d.]{1,12}[KMB]?)"
)
"""Numbers of nanotron, which it shortens: 22.8K."""
_COUNTED: Final = re.compile(
    r"\b(?:Epoch: ?\[(?P<epoch>\d{1,6})\]\s{0,2}\[ {0,6}(?P<in_epoch>\d{1,9})/(?P<length>\d{1,9})\]"
    r"|Epoch\(train\) {1,3}\[(?P<epoch_2>\d{1,6})\] ?\[ {0,6}(?P<in_epoch_2>\d{1,9})/(?P<length_2>"
    r"\d{1,9})\]"
    r"|epoch (?P<epoch_3>\d{1,6}):? {1,9}(?P<in_epoch_3>\d{1,9}) / (?P<length_3>\d{1,9})(?= loss)"
    r"|training it (?P<in_epoch_4>\d{1,9})/(?P<length_4>\d{1,9}) of epoch (?P<epoch_4>\d{1,6})"
    r"|(?:global[_ ])?(?:[Ss]tep|[Ii]ter(?:ation)?)s?(?: at)?[ \t]{0,3}[:=#\[(]?[ \t]{0,8}"
    r"(?P<step>\d{1,12})\b(?: {0,2}/ {0,2}(?P<total>\d{1,12}))?)"
)
"""Counters of steps of programs with a form of their own: nanoGPT, torchvision, DLRM, …"""
_LOSS: Final = re.compile(
    rf"\b(?:train_|total_|lm_|mean_)?[Ll]oss\b(?: function)?[ \t]{{0,4}}[:= ]\s{{0,4}}"
    rf"({_NUMBER})"
)
_DURATION: Final = rf"[ \t]{{0,3}}[:= ][ \t]{{0,4}}({_NUMBER}) ?(ms|s|sec)?(?![\w:])"
_NOT_OF_STEP: Final = "".join(
    f"(?<!{word} )" for word in ("eta", "total", "elapsed", "load", "data")
)
_STEP_TIME: Final = re.compile(
    rf"(?<![\w-]){_NOT_OF_STEP}(?:[Tt]ime|step[_ ]time|iter[_ ]time|dt)"
    rf"(?: per (?:step|iter(?:ation)?))?{_DURATION}"
)
_DATA_TIME: Final = re.compile(rf"(?<!\w)(?:data[_ ]time|Data|data){_DURATION}")
_TOKEN_RATE: Final = re.compile(
    rf"\b(?:tok(?:ens)?(?:/s(?:ec)?|_per_sec(?:ond)?))[ \t]{{0,3}}[:= ][ \t]{{0,4}}({_NUMBER})"
    rf"|({_NUMBER}) ?tok(?:ens)?/s(?:ec)?\b|{_NUMBER}"
)
_EPOCH: Final = re.compile(
    rf"Epoch (?P<step>\d{{1,9}}) finished\. Avg Loss: (?P<loss>{_NUMBER}), "
    rf"Time: {_NUMBER}s, Throughput: (?P<tokens>{_NUMBER}) tokens/sec"
)
_NEMO: Final = re.compile(rf"train_step_timing in s[=:] ?(?P<time>{_NUMBER})")
_NEMO_STEP: Final = re.compile(rf"global_step[=:] ?(?P<step>{_NUMBER})")
_NEMO_LOSS: Final = re.compile(rf"reduced_train_loss[=:] ?(?P<loss>{_NUMBER})")
_NEMO_TOTAL: Final = re.compile(r"iteration \d{1,12}/(?P<total>\d{1,12}) \|")
_BAR: Final = re.compile(
    r"\| ?(?P<step>\d{1,12})/(?P<total>\d{1,12}) \[(?P<elapsed>(?:\d{1,5}:)?\d{1,2}:\d\d)<"
)
"""Progress of tqdm: steps made, all of them, and the time since the first."""
_BAR_CHARACTERS: Final = 20_000
"""Between two lines of a log, a bar is drawn ten times a second."""
_DICTIONARY: Final = re.compile(r"\{'(?:loss|train_runtime)': [^{}\n]{1,4000}\}")
_MEMBER: Final = re.compile(rf"'(\w{{1,60}})': '?({_NUMBER})\b")
_MLPERF: Final = re.compile(r":::MLLOG (?P<record>\{[^\n]{1,4000}\})")
_MLPERF_LOSSES: Final = ("loss", "train_loss", "reduced_train_loss")
_LONGEST_HEAD: Final = 400
_LONGEST_REST: Final = 2000
_FIELDS: Final = {
    "grad_norm": re.compile(rf"grad[ _]norm:\s*({_NUMBER})"),
    "memory_gib": re.compile(rf"(?:memory:\s*({_NUMBER})\s*GiB|MaxMemAllocated=({_NUMBER})GB)"),
    "tokens_per_s_per_device": re.compile(
        rf"(?:\btps:|tokens/sec/GPU:|tokens per GPU \(tokens/s/GPU\):|tokens_per_sec_per_gpu[=:])"
        rf"\s*({_NUMBER})"
    ),
    "tflops_per_device": re.compile(
        rf"(?:\btflops:|throughput per GPU \(TFLOP/s/GPU\):|TFLOPS_per_GPU[=:])\s*({_NUMBER})"
    ),
    "mfu_pct": re.compile(rf"\bmfu:\s*({_NUMBER})%"),
    "time_ms": re.compile(rf"elapsed time per iteration \(ms\):\s*({_NUMBER})"),
    "loss": re.compile(rf"\blm loss:\s*({_NUMBER})"),
    "tokens_per_s": re.compile(rf"^throughput: ({_NUMBER})$"),
    "global_batch": re.compile(r"global[ _]batch[ _]size:\s*(\d{1,12})"),
}

_Values = dict[str, float]


class StepLine(Struct):
    """A step line, its numbers as text in ``rest`` until it is known to be wanted.

    ``step`` is None where the line states none. ``values`` may also hold ``elapsed_s`` since the
    first step, ``samples_per_s``, and of a summary at the end ``mean_step_s``.
    """

    step: int | None
    head: str = ""
    rest: str = ""
    loss: str = ""
    total: int | None = None
    values: _Values = field(default_factory=dict)
    is_summary: bool = False

    def read(self) -> None:
        """Convert the numbers of the line."""
        self.values = {**_values(self.rest), **self.values}
        if self.loss:
            self.values["loss"] = _float(self.loss)


def _titan_lines(text: str) -> Iterator[StepLine]:
    for match in _TITAN.finditer(text):
        head, rest = _around(text, match)
        if not head.endswith("validate "):
            yield StepLine(int(match["step"]), head, rest, match["loss"])


def _nemo_lines(text: str) -> Iterator[StepLine]:
    """Each line has the time of its own step, whatever number of steps lies between two lines."""
    for match in _NEMO.finditer(text):
        head, rest = _around(text, match)
        bar, stated = _last(_BAR, head), _last(_NEMO_STEP, head)
        if bar is None and stated is None:
            continue
        # A progress bar rounds global_step to four digits.
        step = int(bar["step"]) if bar is not None else _whole(stated["step"] if stated else "")
        loss, total = _last(_NEMO_LOSS, head), bar or _NEMO_TOTAL.search(head)
        if step is not None:
            yield StepLine(
                step,
                head,
                f"{head[-_LONGEST_HEAD:]} {rest}",
                "" if loss is None else loss["loss"],
                None if total is None else int(total["total"]),
                {"time_ms": _float(match["time"]) * 1e3},
            )


def _megatron_lines(text: str) -> Iterator[StepLine]:
    for match in _MEGATRON.finditer(text):
        head, rest = _around(text, match)
        total = None if match["total"] == "infinity" else int(match["total"])
        before = text[max(match.start() - _BRIDGE_BEFORE, 0) : match.start()]
        rate = _last(_BRIDGE, before.rpartition("iteration")[2])
        values = {} if rate is None else {"tflops_per_device": _float(rate[1])}
        yield StepLine(int(match["step"]), head, rest, total=total, values=values)


def _deepspeed_lines(text: str) -> Iterator[StepLine]:
    found = [*_DEEPSPEED.finditer(text)] or [*_OLD_DEEPSPEED.finditer(text)]
    for match in found:
        head, rest = _around(text, match)
        values = {"samples_per_s": _float(match["rate"])} if match["rate"] else {}
        yield StepLine(int(match["step"]), head, rest, values=values)


def _nanotron_lines(text: str) -> Iterator[StepLine]:
    for match in _NANOTRON.finditer(text):
        head, rest = _around(text, match)
        numbers = {name: _shortened(number) for name, number in _SHORT.findall(match[0] + rest)}
        values = {
            "time_ms": _shortened(match["time"]),
            **{key: numbers[name] for name, key in _NANOTRON_KEYS.items() if name in numbers},
        }
        yield StepLine(int(match["step"]), head, total=int(match["total"]), values=values)


_NANOTRON_KEYS: Final = {
    "tokens_per_sec": "tokens_per_s",
    "tokens_per_sec_per_gpu": "tokens_per_s_per_device",
    "lm_loss": "loss",
    "model_tflops_per_gpu": "tflops_per_device",
    "global_batch_size": "global_batch",
}


def _shortened(text: str) -> float:
    """Return the number of 22.8K."""
    factor = {"K": 1e3, "M": 1e6, "B": 1e9}.get(text[-1], 1.0)
    return _float(text.rstrip("KMB")) * factor


def _counted_lines(text: str) -> Iterator[StepLine]:
    """Lines with a counter of steps and a loss, of any program."""
    if not any(word in text for word in _TRAINING_WORDS):  # most logs are not of training
        return
    for match in _COUNTED.finditer(text):
        head, rest = _around(text, match)
        loss = _LOSS.search(rest)
        each = _with_unit(_PER_STEP, rest, "/step", "/it")
        if (loss is None and each is None) or _NO_TRAINING.search(head):
            continue
        step, total = _count_of(match)
        values = {} if loss is None else {"loss": _float(loss[1])}
        for name, pattern in (("time_ms", _STEP_TIME), ("data_ms", _DATA_TIME)):
            stated = pattern.search(rest)
            if stated is not None:
                values[name] = _float(stated[1]) * (1.0 if stated[2] == "ms" else 1e3)
        if each is not None:
            values["time_ms"] = _float(each[1]) * (1.0 if each[2] == "ms" else 1e3)
        rate = _with_unit(_TOKEN_RATE, rest, "tok")
        if rate is not None:
            values["tokens_per_s"] = _float(rate[1] or rate[2])
        yield StepLine(step, head, rest, total=total, values=values)


def _with_unit(pattern: re.Pattern[str], text: str, *words: str) -> re.Match[str] | None:
    """Return the first match with a group, in a text with one of the words.

    Numbers of other units match without one: they are passed over as a whole, since from each
    digit of a long one its end is far away.
    """
    found = pattern.finditer(text) if any(word in text for word in words) else ()
    return next((match for match in found if match.lastindex), None)


_TRAINING_WORDS: Final = ("loss", "Loss", "/step", "/iter")
_PER_STEP: Final = re.compile(rf"({_NUMBER}) ?(ms|s|sec)/(?:step|iter|it)\b|{_NUMBER}")
_PROGRESS: Final = re.compile(
    r"\b(?P<name>Epoch|[Tt]rain(?:ing)?)\b *(?P<epoch>\d{1,6})?[^|\n]{0,40}\|[^|\n]{0,400}\| *"
    r"(?P<step>\d{1,9})/(?P<total>\d{1,9}) \[[\d:]{4,12}<[^,\n]{1,20}, *"
    r"(?P<rate>\d{1,9}(?:\.\d{1,6})?)(?P<unit>it/s|s/it)(?P<rest>[^\]\n]{0,400})"
)


def _progress_lines(text: str) -> Iterator[StepLine]:
    """Bars of tqdm that count the batches of an epoch, as Lightning draws them."""
    for match in _PROGRESS.finditer(text):
        rate = float(match["rate"])
        if not rate:
            continue
        total, loss = int(match["total"]), _LOSS.search(match["rest"])
        values = {"time_ms": 1e3 / rate if match["unit"] == "it/s" else 1e3 * rate}
        if loss is not None:
            values["loss"] = _float(loss[1])
        step = int(match["epoch"] or 0) * total + int(match["step"])
        yield StepLine(step, _around(text, match)[0], values=values)


_NO_TRAINING: Final = re.compile(
    r"\b(?:val(?:id(?:ation)?)?|eval(?:uation)?|test)\b", re.IGNORECASE
)


def _count_of(match: re.Match[str]) -> tuple[int, int | None]:
    """Return the step of a line and of how many, over all epochs where it counts in each."""
    if match["step"]:
        return int(match["step"]), int(match["total"]) if match["total"] else None
    epoch, at, length = (
        int(next(match[f"{name}{form}"] for form in _FORMS if match[f"{name}{form}"]))
        for name in ("epoch", "in_epoch", "length")
    )
    # mmengine and fairseq count epochs from 1
    first = epoch - 1 if match["epoch_2"] or match["epoch_3"] else epoch
    return max(first, 0) * length + at, None


_FORMS: Final = ("", "_2", "_3", "_4")


def _epoch_lines(text: str) -> Iterator[StepLine]:
    for match in _EPOCH.finditer(text):
        yield StepLine(int(match["step"]), "", f"throughput: {match['tokens']}", match["loss"])


def _trainer_lines(text: str) -> Iterator[StepLine]:
    """Dictionaries that the Trainer of Hugging Face prints, with the progress bar before each.

    Its lines state no step unless a program adds one; the bar does, to a tenth of a second. Bars
    of other work, such as an evaluation, have other totals than most.
    """
    found = list(_dictionaries(text))
    totals = Counter(line.total for line in found if line.total is not None)
    usual = totals.most_common(1)[0][0] if totals else None
    has_bars = all(line.total is not None and line.total == usual for line in found)
    for line in found:
        if not has_bars:
            line.total = None
            line.values.pop("elapsed_s", None)
            if not line.values.pop("is_stated", 0.0):
                line.step = None
    yield from _with_summaries(found)


def _dictionaries(text: str) -> Iterator[StepLine]:
    at, bar = 0, None
    for match in _DICTIONARY.finditer(text):
        members = _members(match[0])
        bar = _last(_BAR, text[max(at, match.start() - _BAR_CHARACTERS) : match.start()]) or bar
        at = match.end()
        head, _ = _around(text, match)
        line = StepLine(None, head)
        if bar is not None:
            line.step, line.total = int(bar["step"]), int(bar["total"])
            line.values["elapsed_s"] = _clock_s(bar["elapsed"])
        stated = members.get("step", math.nan)
        if 0 <= stated < 1 << 53:
            line.step, line.values["is_stated"] = int(stated), 1.0
        if "train_runtime" in members:
            line.is_summary = True
            line.values |= members
        else:
            line.values["loss"] = members.get("loss", math.nan)
        yield line


def _state_lines(text: str) -> Iterator[StepLine]:
    """Yield the history in trainer_state.json, which the Trainer of Hugging Face saves."""
    # of a long one the end alone: "trial_params" is the last key of the document
    if '"log_history"' in text or '"trial_params"' in text:
        yield from _with_summaries(_entries(text))


def _entries(text: str) -> Iterator[StepLine]:
    stated = _MAX_STEPS.search(text)
    total = int(stated[1]) if stated is not None else None
    for match in _ENTRY.finditer(text):
        entry = _record(match[0]) if '"step":' in match[0] else {}
        members = {name: finite_or_nan(value) for name, value in entry.items()}
        step = members.get("step", math.nan)
        if not 0 <= step < 1 << 53:
            continue
        if "train_runtime" in members:
            yield StepLine(int(step), total=total, values=members, is_summary=True)
        elif "loss" in members:
            yield StepLine(int(step), total=total, values={"loss": members["loss"]})


_ENTRY: Final = re.compile(r"\{[^{}]{0,8000}\}")
_MAX_STEPS: Final = re.compile(r'"max_steps": ?(\d{1,12})')


def _members(text: str) -> dict[str, float]:
    """Return the numbers of a dictionary of Python, which newer releases print as texts."""
    return {match[1]: _float(match[2]) for match in _MEMBER.finditer(text)}


def _with_summaries(lines: Iterable[StepLine]) -> Iterator[StepLine]:
    """Yield lines of the Trainer, summaries with what follows from the numbers in them."""
    before: list[StepLine] = []
    for line in lines:
        if line.is_summary:
            line.values = _summary(line, before)
            before = []
        else:
            before.append(line)
        yield line


def _summary(line: StepLine, before: list[StepLine]) -> _Values:
    """Return what a summary states of the whole run, {} where it may have been resumed.

    The Trainer divides all steps and samples that were planned by the time that it took: it counts
    those too that a run left out which stopped early, or had made before it was resumed. It rounds
    rates to three digits behind the point.
    """
    seconds, steps, samples = (
        line.values.get(f"train_{name}", math.nan)
        for name in ("runtime", "steps_per_second", "samples_per_second")
    )
    if not _made_all(line, before):
        return {}
    values = {}
    made, total = line.step, line.total
    if made is not None and seconds > 0:
        values["mean_step_s"] = seconds / made
        if total is not None:
            samples *= made / total if made < total else 1.0
        elif not (steps >= _LEAST_STATED and abs(made / seconds - steps) <= _rounding(steps)):
            samples = math.nan
    elif steps >= _LEAST_STATED:
        values["mean_step_s"] = 1 / steps
    if samples > 0:
        values["samples_per_s"] = samples
    return values


def _rounding(rate: float) -> float:
    """Return how far a rate may be from the stated one: it is rounded, and so is the time."""
    return 0.0005 + 0.001 * rate


_LEAST_STATED: Final = 0.05
"""Steps a second: below, 0.001 is more than 2 % of the rate."""


def _made_all(line: StepLine, before: list[StepLine]) -> bool:
    """Return whether the steps of a summary were all made in its time.

    It has the sum of the losses in that time over all steps of the run, which is less than the mean
    of the losses of all steps where some were made before. Lines without steps are as far apart.
    """
    made = len(before) if line.step is None else line.step
    losses: list[tuple[int, float]] = []  # from the last step to the first
    for number in range(len(before), 0, -1):
        step = before[number - 1].step
        at = number if step is None else step
        if losses and at > losses[-1][0]:
            break  # an earlier run
        if not losses or at < losses[-1][0]:  # several nodes may print one
            losses.append((at, before[number - 1].values.get("loss", math.nan)))
    if not losses or not 0 < losses[0][0] <= made:
        return False
    # each line has the mean of the steps since the line before; behind the last there is none
    bounds = [made, *(at for at, _ in losses[1:]), 0]
    parts = zip(losses, bounds, bounds[1:], strict=False)
    mean = sum(loss * (last - first) for (_, loss), last, first in parts) / made
    stated = line.values.get("train_loss", math.nan)
    return abs(mean - stated) < _ALIKE * abs(stated)


_ALIKE: Final = 0.02
"""Share by which a mean of losses may differ: they have few digits, and the last may be absent."""


def _mlperf_lines(text: str) -> Iterator[StepLine]:
    """Yield blocks of training between evaluations, else rates, from records of MLPerf's logger."""
    blocks = _blocks(text)
    first = next(blocks, None)
    yield from _rates(text) if first is None else chain((first,), blocks)


def _records(text: str) -> Iterator[tuple[re.Match[str], Mapping[str, Any]]]:
    """Yield the records of MLPerf's logger; kept, they would take many times the text."""
    return ((match, _record(match["record"])) for match in _MLPERF.finditer(text))


def _blocks(text: str) -> Iterator[StepLine]:
    batch = start_ms = first = loss = math.nan
    for match, record in _records(text):
        key, value, time_ms = record.get("key"), record.get("value"), finite(record.get("time_ms"))
        metadata = record.get("metadata")
        counted = metadata.get("samples_count") if isinstance(metadata, dict) else None
        samples = finite_or_nan(counted)
        if key == "global_batch_size":
            batch = finite_or_nan(value)
        elif key in _MLPERF_LOSSES:
            loss = finite_or_nan(value)
        elif key == "tracked_stats" and isinstance(value, dict):
            loss = next(
                (finite_or_nan(value[name]) for name in _MLPERF_LOSSES if name in value), loss
            )
        elif key == "block_start" and time_ms is not None:
            start_ms, first = time_ms, samples
        elif key == "block_stop" and time_ms is not None:
            values = _block(samples, first, batch, time_ms - start_ms)
            if values:
                if math.isfinite(loss):
                    values["loss"] = loss
                yield StepLine(round(samples / batch), _around(text, match)[0], values=values)
            start_ms = loss = math.nan


def _block(samples: float, first: float, batch: float, took_ms: float) -> _Values:
    """Return the numbers of a block, {} for one without a step or a time."""
    made = (samples - first) / batch if batch >= 1 else math.nan
    if not (made >= 1 and took_ms > 0 and samples < 1 << 53):
        return {}
    rate = (samples - first) / took_ms * 1e3
    return {"time_ms": took_ms / made, "samples_per_s": rate, "global_batch": batch}


def _rates(text: str) -> Iterator[StepLine]:
    """Yield a line for each rate that is stated, where it is one of samples.

    Benchmarks state what they have done so far as samples or as epochs, under one name, and rates
    of samples or of tokens: it is samples where a rate and a time give as many.
    """
    batch = last_ms = in_epoch = math.nan
    last = 0.0
    for match, record in _records(text):
        key, value, time_ms = record.get("key"), record.get("value"), finite(record.get("time_ms"))
        if key == "global_batch_size":
            batch = finite_or_nan(value)
        elif key == "train_samples":
            in_epoch = finite_or_nan(value)
        elif key == "run_start" and time_ms is not None:
            last_ms, last = time_ms, 0.0
        if key != "tracked_stats" or not isinstance(value, dict) or time_ms is None:
            continue
        rate, done = finite_or_nan(value.get("throughput")), _done(record.get("metadata"))
        made = rate * (time_ms - last_ms) / 1e3
        samples = next(
            (done * each for each in (1.0, in_epoch)
             if abs((done - last) * each - made) <= _ROUNDED * made), math.nan,
        )  # fmt: skip
        if batch >= 1 and made > 0 and samples < 1 << 53:
            values = {"time_ms": batch / rate * 1e3, "samples_per_s": rate, "global_batch": batch}
            yield StepLine(round(samples / batch), _around(text, match)[0], values=values)
        if math.isfinite(done):
            last_ms, last = time_ms, done


_ROUNDED: Final = 0.05
"""Share by which samples may differ from a rate times the time of an evaluation more or less."""


def _done(metadata: Any) -> float:
    """Return how many samples or epochs are done at a record, NaN where it does not say."""
    if not isinstance(metadata, dict):
        return math.nan
    found = [finite_or_nan(metadata.get(name)) for name in ("samples_count", "epoch_num")]
    return next((number for number in found if 0 < number < 1 << 53), math.nan)


_NOT_FINITE: Final = re.compile(r"(?<=[:\[, ])-?(?:NaN|Infinity)\b")


def _record(text: str) -> Mapping[str, Any]:
    """Return an object, {} for none; NaN and Infinity, which Python writes, are None."""
    if "NaN" in text or "Infinity" in text:
        text = _NOT_FINITE.sub("null", text)
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _around(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the text before and after a match in its line."""
    first = max(match.start() - _LONGEST_HEAD, 0)
    begin = max(text.rfind("\n", first, match.start()) + 1, first)
    last = min(match.end() + _LONGEST_REST, len(text))
    end = text.find("\n", match.end(), last)
    return text[begin : match.start()], text[match.end() : last if end < 0 else end]


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return max(pattern.finditer(text), key=re.Match.start, default=None)


DIALECTS: Final[dict[Dialect, Callable[[str], Iterator[StepLine]]]] = {
    "torchtitan": _titan_lines,
    "nemo": _nemo_lines,  # before Megatron, whose pattern matches its lines too
    "megatron": _megatron_lines,
    "nanotron": _nanotron_lines,
    "deepspeed": _deepspeed_lines,
    "huggingface": _trainer_lines,
    "trainer_state": _state_lines,
    "mlperf": _mlperf_lines,  # after NeMo, which has each step where this has blocks
    "plain": _epoch_lines,
    "counted": _counted_lines,  # after all others, whose lines it takes too
    "progress": _progress_lines,
}


def _values(rest: str) -> _Values:
    found = {}
    for name, pattern in _FIELDS.items():
        match = pattern.search(rest)
        if match:
            found[name] = _float(match[match.lastindex or 1])
    return found


def _float(text: str) -> float:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return math.nan
    return number if abs(number) <= LARGEST_NUMBER else math.nan


def _whole(text: str) -> int | None:
    number = _float(text)
    return int(number) if 0 <= number < 1 << 53 else None


def _clock_s(text: str) -> float:
    """Seconds of 1:03:17 and of 06:19."""
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return float(seconds)
