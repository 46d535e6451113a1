"""Lists of a comparison that a client may ask for: read by the server and the answering process."""

from __future__ import annotations

from typing import Final, Literal, get_args

Section = Literal[
    "kinds", "waterfall", "dimensions", "kernels", "operators", "collectives", "stragglers"
]
SECTIONS: Final[tuple[str, ...]] = get_args(Section)
"""Lists of the document that are rows of an answer, one list a call."""
