"""Let torchtitan 0.2.x train qwen3 with pipeline stages: ``experimental.custom_import``.

Its qwen3 is written for stages (modules that a stage lacks are passed through) but names no
function that makes them; llama3 and deepseek_v3 use this one. Flavors whose embedding and output
share their weights do not go with stages, because the two lie in different ones.
"""

from __future__ import annotations

import dataclasses

from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.models.qwen3 import get_train_spec
from torchtitan.protocols.train_spec import register_train_spec

register_train_spec("qwen3", dataclasses.replace(get_train_spec(), pipelining_fn=pipeline_llm))
