"""Small models of the same shape in place of the flavors that the workloads train.

Layers, widths and experts become fewer, proportions stay: heads to key-value heads, dense to expert
layers, experts to those that a token takes. A CPU has neither flash nor flexible attention nor
grouped multiplications, so those are replaced by their plain forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from msgspec import structs
from torch.distributed.tensor import DTensor

VOCABULARY = 1024
LAYERS = 6


def shrink_flavors() -> None:
    """Replace the flavors 8B of llama3, 16B of deepseek_v3 and 32B of qwen3."""
    from torchtitan.models.deepseek_v3 import deepseekv3_args
    from torchtitan.models.llama3 import llama3_args
    from torchtitan.models.qwen3 import qwen3_args

    _replace(llama3_args, "8B", {"dim": 64, "n_heads": 16, "n_kv_heads": 4, "multiple_of": 16})
    _replace(
        *(qwen3_args, "32B"),
        {"dim": 80, "head_dim": 16, "n_heads": 16, "n_kv_heads": 2, "hidden_dim": 400},
    )
    experts = structs.replace(
        deepseekv3_args["16B"].moe_args, num_experts=8, top_k=2, use_grouped_mm=False
    )
    _replace(
        *(deepseekv3_args, "16B"),
        {
            **{"dim": 64, "inter_dim": 336, "moe_inter_dim": 48, "n_heads": 8, "kv_lora_rank": 16},
            **{"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16},
            **{"attn_type": "sdpa", "attn_mask_type": "causal", "moe_args": experts},
        },
    )


def _replace(flavors: Any, name: str, sizes: Mapping[str, Any]) -> None:
    common = {"vocab_size": VOCABULARY, "n_layers": LAYERS}
    flavors[name] = structs.replace(flavors[name], **common, **sizes)


def count_without_integers() -> None:
    """``histc`` of a CPU takes no integers; the experts' tokens are counted with it."""
    count = torch.histc

    def counted(tokens: torch.Tensor, *words: Any, **options: Any) -> torch.Tensor:
        return count(tokens.float(), *words, **options).to(tokens.dtype)

    torch.histc = counted


def attend_locally() -> None:
    """Attention of a CPU has no rule for distributed tensors; heads are independent."""
    from torchtitan.models.attention import ScaledDotProductAttentionWrapper

    def forward(_: Any, *tensors: Any, **options: Any) -> Any:
        first = tensors[0]
        parts = [one.to_local() if isinstance(one, DTensor) else one for one in tensors]
        made = torch.nn.functional.scaled_dot_product_attention(*parts, **options)
        if isinstance(first, DTensor):
            return DTensor.from_local(made, first.device_mesh, first.placements, run_check=False)
        return made

    ScaledDotProductAttentionWrapper.forward = forward
