"""SVG elements with a title and a description; names are escaped when an element is written."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from ccltui.report.page.page_parts import bounded


def svg(name: str, width: float, height: float, title: str, description: str) -> Element:
    """Return a picture without content.

    Args:
        name: identifier on the page, from which those of title and description are derived.
        width: width of its coordinates; it is drawn as wide as its place.
        height: height of its coordinates.
        title: what it shows, read aloud in place of the picture.
        description: what is to be seen in it, in words.
    """
    root = Element(
        "svg",
        {
            "viewBox": f"0 0 {width:g} {height:g}",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc",
            "class": "picture",
        },
    )
    SubElement(root, "title", {"id": f"{name}-title"}).text = bounded(title)
    SubElement(root, "desc", {"id": f"{name}-desc"}).text = bounded(description)
    return root


def rect(parent: Element, x: float, y: float, width: float, height: float, *, kind: str) -> Element:
    """Add a filled rectangle of a class."""
    return SubElement(
        parent,
        "rect",
        {
            "x": short(x),
            "y": short(y),
            "width": short(width),
            "height": short(height),
            "class": kind,
        },
    )


def line(parent: Element, x1: float, y1: float, x2: float, y2: float, *, kind: str) -> None:
    """Add a line of a class."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    SubElement(parent, "line", {k: short(v) for k, v in ends.items()} | {"class": kind})


def label(parent: Element, x: float, y: float, text: str, kind: str = "label") -> None:
    """Add text of a class: "label", or "label end", "label middle" by what ``x`` is."""
    SubElement(parent, "text", {"x": short(x), "y": short(y), "class": kind}).text = bounded(text)


def path(parent: Element, pieces: Iterable[str], kind: str, *, width: float = 0) -> None:
    """Add a path of a class, of strokes as wide as ``width``; nothing where it is empty."""
    if data := "".join(pieces):
        found = SubElement(parent, "path", {"d": data, "class": kind})
        if width:
            found.set("stroke-width", short(width))


def box(x: float, y: float, width: float, height: float) -> str:
    """Return the piece of a path that is a rectangle: many cost less than elements."""
    wide = short(max(width, 0.1))
    return f"M{short(x)} {short(y)}h{wide}v{short(height)}h-{wide}z"


def short(value: float) -> str:
    """Return a coordinate with at most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def svg_text(element: Element) -> str:
    """Return the text of an element for an HTML page."""
    return tostring(element, encoding="unicode", method="xml")
