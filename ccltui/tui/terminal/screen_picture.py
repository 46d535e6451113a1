"""Picture of the screen as SVG that loads nothing."""

from __future__ import annotations

import re
from typing import Any, Final

from textual.app import App

_FONT_FACES: Final = re.compile(r"\s*@font-face \{.*?\}(?=\n)", re.DOTALL)


def screen_picture(app: App[Any], title: str | None = None) -> str:
    """Return Textual's screenshot without its fonts, which a viewer would load from another host.

    The fonts of the machine that shows it take their place; the width of each text is stated in it.
    """
    return _FONT_FACES.sub("", app.export_screenshot(title=title))
