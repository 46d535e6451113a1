"""Check a workload before it is submitted; print the facts that the shell scripts need.

Standard output has one ``name=value`` a line, standard error the problems. The status is 1 when
one of them is an error.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from memory import Model, check_memory, fits, peak_bytes
from plan_checks import Problem, check_model, check_plan, check_recording
from run_card import FOLLOWED, card_values
from torchtitan_arguments import is_classic
from train_config import ConfigError, TrainConfig, read_train_config

_IN_CARD = ("--parallelism.", "--training.", "--model.")

_SIZES = {
    "num_params": "num_params",
    "layers": "num_layers",
    "hidden": "hidden_size",
    "intermediate": "intermediate_size",
    "vocabulary": "vocab_size",
}
"""Size of the planner's model -> key of the card."""
_ARCHITECTURE = "workload.model.model_arch"

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
    memory = check_memory_of(config, options, size.ranks)
    print(f"nodes={size.nodes}\ngpus_per_node={size.gpus_per_node}\ntorchtitan={torchtitan}")
    print(f"steps={config.number('training.steps')}\nlarge_gpus={'yes' if memory.large else 'no'}")
    for name, key in FACTS.items():
        print(f"{name}={config.values[key]}")
    problems = [
        *check_plan(config, world_size=size.ranks, torch_profiler=options.profile != "nsys"),
        *_of_nsys(config, options),
        *_of_torchtitan(config, options.train_program, torchtitan),
        *memory.problems,
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
    parser.add_argument("--large-gpu-memory-gib", type=float, help="of the site's larger nodes")
    parser.add_argument("--larger-nodes", default="", help="the constraint that asks for them")
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


@dataclass(frozen=True, slots=True)
class Memory:
    """Problems with the memory of the GPUs; ``large``: the site's larger nodes are needed."""

    problems: tuple[Problem, ...] = ()
    large: bool = False


def check_memory_of(config: TrainConfig, options: argparse.Namespace, ranks: int) -> Memory:
    """Choose between the site's nodes, and check the memory of those that are chosen."""
    card: Path | None = options.card
    if card is None or options.gpu_memory_gib is None or options.device == "cpu":
        return Memory()
    model = model_of(card)
    if isinstance(model, Problem):
        return Memory((model,))
    size, large = options.gpu_memory_gib, options.large_gpu_memory_gib
    peak = peak_bytes(config, model, ranks)
    if large is None or large <= size or peak is None or fits(peak, size):
        found = [*check_memory(config, model=model, world_size=ranks, gpu_memory_gib=size)]
        if found and options.larger_nodes:
            what = f"the site has larger GPUs: --constraint '{options.larger_nodes}'"
            found.append(Problem("note", what, ""))
        return Memory(tuple(found))
    what = f"about {peak / 2**30:.1f} GiB on every GPU: nodes with {large:g} GB are requested"
    there = check_memory(config, model=model, world_size=ranks, gpu_memory_gib=large)
    return Memory((Problem("note", what, ""), *there), large=True)


def model_of(card: Path) -> Model | Problem:
    """Return the sizes of the model in the card, or why they are unknown."""
    try:
        stated = {key: value for key, value, _ in card_values(card.read_text(encoding="utf-8"))}
    except (OSError, UnicodeDecodeError) as error:
        return Problem("error", f"{card}: {error}", "")
    sizes = {name: _count(stated.get(f"{_ARCHITECTURE}.{key}", "")) for name, key in _SIZES.items()}
    missing = [_SIZES[name] for name, value in sizes.items() if value == 0]
    if missing:
        what = f"the memory was not checked: {card} has no {', '.join(missing)}"
        return Problem("warning", what, "")
    return Model(**sizes)


def _count(text: str) -> int:
    return int(text) if re.fullmatch(r"[1-9]\d{0,17}", text) else 0


if __name__ == "__main__":
    sys.exit(main())
