"""Let torchtitan 0.2.2's own parser read configurations: ``titan_parse.py FILE...``.

Prints, for each, what it took for what, as one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from torchtitan.config import ConfigManager
from torchtitan.protocols.train_spec import get_train_spec

sys.path.append(str(Path(__file__).resolve().parents[2] / "sbatch" / "torchtitan_models"))


def main() -> None:
    """A ValueError of torchtitan ends it with the configuration's name."""
    for path in sys.argv[1:]:
        config = ConfigManager().parse_args(["--job.config_file", path])
        imported = config.experimental.custom_import
        if imported:
            importlib.import_module(imported)
        spec = get_train_spec(config.model.name)
        plan = config.parallelism
        facts = {
            "model": config.model.name,
            "known_flavor": config.model.flavor in spec.model_args,
            "pipelines": spec.pipelining_fn is not None,
            "degrees": [
                plan.data_parallel_replicate_degree,
                plan.data_parallel_shard_degree,
                plan.tensor_parallel_degree,
                plan.pipeline_parallel_degree,
            ],
            "profiling": config.profiling.enable_profiling,
            "folder": config.profiling.save_traces_folder,
        }
        sys.stdout.write(json.dumps(facts) + "\n")


main()
