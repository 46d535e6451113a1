"""Print the arguments that start torchtitan on a ``train_config.toml``, each ended by a NUL.

Up to 0.2.x torchtitan reads the file itself. Later releases have their configurations in Python
and take ``--module`` and ``--config``; the keys of the file that they still have are given to them
one by one, and those that they have no more are named on standard error.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from train_config import ConfigError, read_document

_SECTIONS = {
    "profiling": "profiler",
    "metrics": "metrics",
    "lr_scheduler": "lr-scheduler",
    "training": "training",
    "parallelism": "parallelism",
}
_RENAMED = {"training.dataset": "dataloader.dataset"}
# Said by --module, --config and the further arguments, or the default of the new releases.
_ELSEWHERE = frozenset({"job", "model", "checkpoint", "compile", "activation_checkpoint"})
_OPTIMIZER = "optimizer"


def is_classic(version: str) -> bool:
    """Return whether a release reads TOML."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) < (0, 3)


def classic_arguments(config: str, dump_folder: str, assets: str, profiler: str) -> list[str]:
    """Return the arguments of torchtitan up to 0.2.x, and of its replacements."""
    words = ["--job.config_file", config, "--job.dump_folder", dump_folder]
    if assets:
        words += ["--model.hf_assets_path", assets]
    if profiler == "nsys":
        words.append("--profiling.no-enable-profiling")
    return words


def registry_arguments(
    document: Mapping[str, Any], dump_folder: str, assets: str, profiler: str
) -> list[str]:
    """Return the arguments of torchtitan from 0.3; activation checkpointing must come last."""
    model = document.get("model", {})
    name, flavor = str(model.get("name", "")), str(model.get("flavor", ""))
    words = ["--module", name, "--config", f"{name}_{re.sub('[^a-z0-9]', '_', flavor.lower())}"]
    words += ["--dump-folder", dump_folder]
    if assets:
        words += ["--hf-assets-path", assets]
    for section, new in _SECTIONS.items():
        for key, value in document.get(section, {}).items():
            if (section, key, profiler) != ("profiling", "enable_profiling", "nsys"):
                words += _option(_RENAMED.get(f"{section}.{key}", f"{new}.{key}"), value)
    if profiler == "nsys":
        words.append("--profiler.no-enable-profiling")
    # They do not go with pipelines, and no TOML release had them.
    words.append("--training.disable-cuda-graphs")
    return words


def activation_checkpoint(document: Mapping[str, Any]) -> list[str]:
    """Return the sub-command that selects activation checkpointing."""
    mode = document.get("activation_checkpoint", {}).get("mode", "none")
    return [f"activation-checkpoint:{mode}"]


def dropped(document: Mapping[str, Any]) -> Iterator[str]:
    """Return the keys of the file without an argument in the new releases."""
    for section, table in document.items():
        if section == _OPTIMIZER:
            yield from (f"{section}.{key}" for key in table)
        elif section not in _ELSEWHERE and section not in _SECTIONS:
            yield section


def _option(name: str, value: object) -> list[str]:
    name = name.replace("_", "-")
    if isinstance(value, bool):
        section, _, key = name.partition(".")
        return [f"--{name}" if value else f"--{section}.no-{key}"]
    return [f"--{name}", str(value)]


def main(words: Sequence[str]) -> int:
    """Print the arguments; return the exit status."""
    cut = words.index("--") if "--" in words else len(words)
    further = words[cut + 1 :]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--dump-folder", required=True)
    parser.add_argument("--assets", default="")
    parser.add_argument("--profiler", choices=("torch", "nsys"), default="torch")
    options = parser.parse_args(words[:cut])
    given = (options.dump_folder, options.assets, options.profiler)
    if is_classic(options.version):
        arguments = [*classic_arguments(str(options.config), *given), *further]
    else:
        try:
            document = read_document(options.config)
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        arguments = [
            *registry_arguments(document, *given),
            *further,
            *activation_checkpoint(document),
        ]
        left = ", ".join(dropped(document))
        print(f"warning: torchtitan {options.version} keeps its own: {left}", file=sys.stderr)
    sys.stdout.write("".join(f"{word}\0" for word in arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
