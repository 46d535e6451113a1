"""A decoder in the form of GPT-2: learned positions, pre-norm blocks, tied embeddings.

Sizes and names follow Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a model. ``n_embd`` is a multiple of ``n_head``."""

    n_embd: int = 2560
    n_layer: int = 32
    n_head: int = 32
    seq_length: int = 512
    vocabulary: int = 50257

    def __post_init__(self) -> None:
        """Raise ValueError if ``n_embd`` is not a multiple of ``n_head``."""
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is no multiple of n_head {self.n_head}")


class Block(nn.Module):
    """Attention, then a perceptron of four times the width, each with a residual connection."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.n_head
        self.before_attention = nn.LayerNorm(size.n_embd)
        self.attention_in = nn.Linear(size.n_embd, 3 * size.n_embd)
        self.attention_out = nn.Linear(size.n_embd, size.n_embd)
        self.before_perceptron = nn.LayerNorm(size.n_embd)
        self.perceptron_in = nn.Linear(size.n_embd, 4 * size.n_embd)
        self.perceptron_out = nn.Linear(4 * size.n_embd, size.n_embd)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (batch, sequence, width) to the same shape."""
        hidden = hidden + self._attended(self.before_attention(hidden))
        inner = functional.gelu(self.perceptron_in(self.before_perceptron(hidden)))
        return hidden + self.perceptron_out(inner)

    def _attended(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        parts = self.attention_in(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.attention_out(found.transpose(1, 2).reshape(batch, length, width))


class Decoder(nn.Module):
    """Tokens (batch, sequence) to logits (batch, sequence, vocabulary)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.n_embd)
        self.positions = nn.Embedding(size.seq_length, size.n_embd)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.n_layer))
        self.last_norm = nn.LayerNorm(size.n_embd)
        for parameter in (self.tokens.weight, self.positions.weight):
            nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits of the next token at every position."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            hidden = block(hidden)
        return functional.linear(self.last_norm(hidden), self.tokens.weight)
