"""Check a workload before it is submitted; print the facts that the shell scripts need.

Standard output has one ``name=value`` a line, standard error the problems. The status is 1 when
one of them is an error.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from memory import check_memory
from plan_checks import Problem, check_model, check_plan, check_recording
from run_card import FOLLOWED
from torchtitan_arguments import is_classic
from train_config import ConfigError, TrainConfig, read_train_config

_IN_CARD = ("--parallelism.", "--training.", "--model.")

FACTS = {
    "assets": "model.hf_assets_path",
    "traces_folder": "profiling.save_traces_folder",
}


@dataclass(frozen=True, slots=True)
class Size:
    """Number of nodes and of GPUs per node."""

    nodes: int
    gpus_per_node: int

    @property
    def ranks(self) -> int:
        """One rank per GPU."""
        return self.nodes * self.gpus_per_node


def size_of(config: TrainConfig, options: argparse.Namespace) -> Size:
    """Return the requested size; else that of the degrees on the site's nodes; else defaults."""
    ranks = config.ranks()
    if options.nodes is not None or ranks is None:
        nodes = options.nodes or options.default_nodes
        return Size(nodes, options.gpus_per_node or options.gpus_of_a_node)
    gpus = options.gpus_per_node or min(ranks, options.gpus_of_a_node)
    return Size(math.ceil(ranks / gpus), gpus)


def main() -> int:
    """Run the check; return the exit status."""
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
    size = size_of(config, options)
    torchtitan = _torchtitan()
    print(f"nodes={size.nodes}\ngpus_per_node={size.gpus_per_node}\ntorchtitan={torchtitan}")
    for name, key in FACTS.items():
        print(f"{name}={config.values[key]}")
    problems = [
        *check_plan(config, world_size=size.ranks, torch_profiler=options.profile != "nsys"),
        *_of_nsys(config, options),
        *_of_torchtitan(config, options.train_program, torchtitan),
        *_memory(config, options, size.ranks),
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
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--gpus-per-node", type=int)
    parser.add_argument("--default-nodes", type=int, default=1)
    parser.add_argument("--gpus-of-a-node", type=int, default=1, help="what a node of the site has")
    parser.add_argument("--profile", default="torch")
    parser.add_argument("--gpu-memory-gib", type=float)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--train-program", default="torchtitan.train")
    return parser


def _torchtitan() -> str:
    """Return the installed version of torchtitan, else the one that setup_env.sh installs."""
    try:
        return version("torchtitan")
    except PackageNotFoundError:
        return os.environ.get("TORCHTITAN_VERSION", "0.2.2")


def _of_nsys(config: TrainConfig, options: argparse.Namespace) -> Iterator[Problem]:
    if options.profile != "torch" and options.device == "cuda":
        yield from check_recording(config, os.environ.get("NSYS_STEPS", "none"))


def _of_torchtitan(config: TrainConfig, program: str, version: str) -> Iterator[Problem]:
    if program.startswith("torchtitan") and is_classic(version):
        yield from check_model(config, version)


def _card_of_file(overrides: Sequence[str]) -> Iterator[Problem]:
    """The card of the run follows sizes and degrees, not what the model is and computes in."""
    changed = [word for word in overrides if word.startswith(_IN_CARD) and not _is_followed(word)]
    if changed:
        yield Problem(
            "warning",
            f"the workload card beside the traces will not know of {' '.join(changed)}",
            "correct the copy after the run",
        )


def _is_followed(word: str) -> bool:
    return word.removeprefix("--").partition("=")[0].replace("-", "_") in FOLLOWED


def _memory(config: TrainConfig, options: argparse.Namespace, ranks: int) -> Iterator[Problem]:
    card: Path | None = options.card
    if card is None or options.gpu_memory_gib is None or options.device == "cpu":
        return
    try:
        from ccltui.parsers.card.workload_card import read_card  # noqa: PLC0415
        from ccltui.parsers.errors import TraceError  # noqa: PLC0415
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
        config, num_params=num_params, world_size=ranks, gpu_memory_gib=options.gpu_memory_gib
    )


if __name__ == "__main__":
    sys.exit(main())
