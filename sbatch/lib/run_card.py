"""Print a workload card with the values of a run in place of the workload's.

Further arguments of the training program and the size of the job change sequence length, batch
sizes and degrees; the card beside the traces states what ran. All other lines stay as they are,
and a changed line tells what the workload's card had. Only the standard library is needed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from train_config import TrainConfig, effective_values, read_train_config

_DATA, _MODEL = "workload.data", "workload.model"
_COUNT = "workload.hardware.xpu_spec.total_count"
_PLAN = "Model-executor.model_plan_parallelization"
_SHARD = "parallelism.data_parallel_shard_degree"
_LOCAL, _GLOBAL = "training.local_batch_size", "training.global_batch_size"
_MICRO = "parallelism.pipeline_parallel_microbatch_size"
_PIPELINE = "parallelism.pipeline_parallel_degree"

SAME = {
    f"{_DATA}.seq_len": "training.seq_len",
    f"{_DATA}.dataset": "training.dataset",
    f"{_MODEL}.iteration": "training.steps",
    f"{_PLAN}.dp_replicate": "parallelism.data_parallel_replicate_degree",
    f"{_PLAN}.tp": "parallelism.tensor_parallel_degree",
    f"{_PLAN}.pp": _PIPELINE,
    f"{_PLAN}.cp": "parallelism.context_parallel_degree",
    f"{_PLAN}.ep": "parallelism.expert_parallel_degree",
}
"""Key of the card -> key of the configuration that says the same."""
FOLLOWED = frozenset({*SAME.values(), _SHARD, _LOCAL, _GLOBAL, _MICRO})
"""Keys of the configuration that the card of a run follows."""

_NO_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""Words that YAML reads as something other than text."""

_LINE = re.compile(
    r"(?P<indent> *)(?P<key>[\w-]+):(?P<space> +)(?P<value>[^\s#][^#\n]*?)?(?P<rest>\s*(?:#.*)?)"
)


def card_of_run(text: str, config: TrainConfig, stated: frozenset[str], world_size: int) -> str:
    """Return the text of a card with its values replaced by those of ``config``."""
    known = {key: value for key, value, _ in card_values(text)}
    wanted = dict(_wanted(known, config, stated, world_size))
    lines = text.splitlines(keepends=True)
    for key, value, number in card_values(text):
        if key in wanted and str(wanted[key]) != value.strip("\"'"):
            match = _LINE.match(lines[number])
            if match is not None:
                head = lines[number][: match.start("value")]
                written = _scalar(wanted[key])
                lines[number] = f"{head}{written}  # {value} in the card of the workload\n"
    return "".join(lines)


def _scalar(value: int | str) -> str:
    """Return a value as YAML; text that could mean something else there is quoted."""
    text = str(value)
    is_plain = isinstance(value, int) or re.fullmatch(r"[A-Za-z][\w./-]*", text)
    return text if is_plain and text.lower() not in _NO_TEXT else json.dumps(text)


def _wanted(
    known: Mapping[str, str], config: TrainConfig, stated: frozenset[str], world_size: int
) -> Iterator[tuple[str, int | str]]:
    """Return the values of the run, by key of the card."""
    for place, key in SAME.items():
        if key in stated or key.startswith("parallelism."):
            yield place, config.values[key]
    shards = config.shard_degree(world_size)
    yield f"{_PLAN}.dp_shard", shards
    yield _COUNT, world_size
    local = config.number(_LOCAL)
    if _LOCAL in stated or _GLOBAL in stated:
        replicas = config.number("parallelism.data_parallel_replicate_degree") * shards
        whole = config.number(_GLOBAL)
        is_global = known.get(f"{_DATA}.batch_size_scope") == "global"
        yield f"{_DATA}.batch_size", _batch(local, whole, replicas) if is_global else local
    if {_LOCAL, _MICRO} <= stated and config.number(_PIPELINE) > 1:
        yield f"{_PLAN}.pp_mb", local // config.number(_MICRO)


def _batch(local: int, whole: int, replicas: int) -> int:
    return whole if whole > 0 else local * replicas


def card_values(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield dotted key, value as written, and number of each line ``key: value``."""
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines()):
        match = re.match(r"( *)([\w-]+):(?:\s|$)", line)
        if match is None:
            continue
        indent = len(match[1])
        above = [(depth, key) for depth, key in above if depth < indent]
        above.append((indent, match[2]))
        whole = _LINE.fullmatch(line)
        if whole is not None and whole["value"]:
            yield ".".join(key for _, key in above), whole["value"].strip(), number


def main(words: Sequence[str]) -> int:
    """Print the card of ``CARD CONFIG WORLD_SIZE -- ARGUMENT...``; return the exit status."""
    card, config, world_size, *rest = words
    overrides = rest[1:] if rest[:1] == ["--"] else rest
    path = Path(config)
    text = Path(card).read_text(encoding="utf-8")
    stated = frozenset(effective_values(path, overrides))
    made = card_of_run(text, read_train_config(path, overrides), stated, int(world_size))
    sys.stdout.write(made)
    for change in _changes(text, made):
        print(f"note: the card of the run: {change}", file=sys.stderr)
    return 0


def _changes(before: str, after: str) -> Iterator[str]:
    """Yield what the run has and the card of the workload has not, by key."""
    values = {key: value for key, value, _ in card_values(before)}
    for key, value, _ in card_values(after):
        if values.get(key) != value:
            yield f"{key} {value}, {values[key]} in that of the workload"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
