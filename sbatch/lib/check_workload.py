"""Check a workload before it is submitted; print the facts that the shell scripts need.

Standard output has one ``name=value`` a line, standard error the problems. The status is 1 when
one of them is an error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from memory import check_memory
from plan_checks import Problem, check_model, check_plan
from torchtitan_arguments import is_classic
from train_config import ConfigError, TrainConfig, read_train_config

_IN_CARD = ("--parallelism.", "--training.", "--model.")

FACTS = {
    "model": "model.name",
    "flavor": "model.flavor",
    "assets": "model.hf_assets_path",
    "traces_folder": "profiling.save_traces_folder",
    "steps": "training.steps",
}


def main() -> int:
    """Run the check; the exit status."""
    words, overrides = sys.argv[1:], []
    if "--" in words:
        cut = words.index("--")
        words, overrides = words[:cut], words[cut + 1 :]
    options = _parser().parse_args(words)
    try:
        config = read_train_config(options.config, overrides)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    world_size = options.nodes * options.gpus_per_node
    if options.world_size:
        print(config.ranks() or "")
        return 0
    for name, key in FACTS.items():
        print(f"{name}={config.values[key]}")
    problems = [
        *check_plan(config, world_size=world_size, torch_profiler=options.profile != "nsys"),
        *_of_torchtitan(config, options.train_program, options.torchtitan),
        *_memory(config, options.card, world_size, options.gpu_memory_gib, options.device),
        *_card_of_file(overrides),
    ]
    for problem in problems:
        print(f"{problem.level}: {problem.what}", file=sys.stderr)
        if problem.fix:
            print(f"    fix: {problem.fix}", file=sys.stderr)
    return int(any(problem.level == "error" for problem in problems))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="After -- : arguments of the training program."
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--card", type=Path)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--gpus-per-node", type=int, default=1)
    parser.add_argument("--profile", default="torch")
    parser.add_argument("--gpu-memory-gib", type=float)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--train-program", default="torchtitan.train")
    parser.add_argument("--torchtitan", default="0.2.2", help="its version")
    parser.add_argument("--world-size", action="store_true", help="only print the ranks it makes")
    return parser


def _of_torchtitan(config: TrainConfig, program: str, version: str) -> Iterator[Problem]:
    if program.startswith("torchtitan") and is_classic(version):
        yield from check_model(config, version)


def _card_of_file(overrides: Sequence[str]) -> Iterator[Problem]:
    """The card is copied beside the traces as it is."""
    changed = [word for word in overrides if word.startswith(_IN_CARD)]
    if changed:
        yield Problem(
            "warning",
            f"the workload card beside the traces will not know of {' '.join(changed)}",
            "correct the copy after the run",
        )


def _memory(
    config: TrainConfig,
    card: Path | None,
    world_size: int,
    gpu_memory_gib: float | None,
    device: str,
) -> Iterator[Problem]:
    if card is None or gpu_memory_gib is None or device == "cpu":
        return
    try:
        from parsers.errors import TraceError  # noqa: PLC0415
        from parsers.workload_card import read_card  # noqa: PLC0415
    except ImportError:
        what = f"the memory was not checked: {sys.executable} has no ccltui to read the card"
        yield Problem("warning", what, "run setup_env.sh, which installs it")
        return
    try:
        num_params = read_card(card).num_params
    except (TraceError, OSError) as error:
        yield Problem("error", str(error), "")
        return
    if num_params is None:
        yield Problem("warning", f"the memory was not checked: {card} has no num_params", "")
        return
    yield from check_memory(
        config, num_params=num_params, world_size=world_size, gpu_memory_gib=gpu_memory_gib
    )


if __name__ == "__main__":
    sys.exit(main())
