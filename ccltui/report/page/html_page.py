"""Write a page as one HTML file without scripts, fonts or links to other files."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ccltui.report.page import page_parts as parts
from ccltui.report.page.svg_elements import svg_text

_TEMPLATE: Final = "page.html"
_STYLES: Final = "page.css"


def html_page(page: parts.Page) -> bytes:
    """Return the page as UTF-8. All text is escaped, unsafe characters are made visible."""
    # Markup in names is escaped by the template engine; what could mislead a reader is not markup.
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests.update(
        {
            "table": _is(parts.Table),
            "line": _is(parts.Line),
            "lines": _is(parts.Lines),
            "picture": _is(parts.Picture),
            "legend": _is(parts.Legend),
            "subsection": _is(parts.Subsection),
            "numeral": _is(parts.Number),
            "swatch": _is(parts.Swatch),
            "tag": _is(parts.Mark),
            "several": _is(tuple),
        }
    )
    environment.filters["svg"] = lambda element: Markup(svg_text(element))
    styles = Markup(_resource(_STYLES))
    text = environment.get_template(_TEMPLATE).render(page=page, styles=styles)
    return text.encode()


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _safe(value: Any) -> Any:
    return (
        value if isinstance(value, Markup) or not isinstance(value, str) else parts.bounded(value)
    )


def _is(kind: type) -> Any:
    return lambda value: isinstance(value, kind)
