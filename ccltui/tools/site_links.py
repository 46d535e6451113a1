"""Links of the documentation that leave ``docs/``, in the site that mkdocs builds.

In a checkout such a link leads to a file beside the folder. The site has no such file, so the link
becomes its text with the path: a reader with a checkout finds it. mkdocs loads this file as a hook.
"""

from __future__ import annotations

import re
from typing import Any, Final

_OUTWARD: Final = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)(?:#[^)\s]*)?\)")
_UNBUILT: Final = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.ipynb)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to files outside the site by their text and path; called by mkdocs a page."""
    return _UNBUILT.sub(_in_docs, _OUTWARD.sub(_in_checkout, markdown))


def _in_checkout(match: re.Match[str]) -> str:
    return _with_path(match[1], match[2])


def _in_docs(match: re.Match[str]) -> str:
    return _with_path(match[1], f"docs/{match[2]}")


def _with_path(text: str, path: str) -> str:
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"
