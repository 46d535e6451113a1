"""A report of a job, read by an HTML parser that forgives nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import html5lib

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.job import open_job
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.make_page import METRICS, html_page, make_page
from ccltui.report.page.page_parts import Page


def page_of(directory: Path, **options: Any) -> tuple[Page, View]:
    """Return the report of a directory, and the view that it is of."""
    job = open_job(directory)
    view = View(job, ViewOptions(**options))
    measured = [(metric, metric.run(view)) for metric in map(find, METRICS)]
    return make_page(TraceSummary.of(job), view, measured), view


def html_of(directory: Path, **options: Any) -> Element:
    """Return the root element of the report of a directory."""
    return parsed(html_page(page_of(directory, **options)[0]))


def parsed(data: bytes) -> Element:
    """Return the root element; any error of the markup raises."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(data)
    return root


def name_of(element: Element) -> str:
    """Name of an element without its name space."""
    return str(element.tag).rpartition("}")[2]


def all_of(root: Element, name: str) -> list[Element]:
    """Return the elements of a name, those of SVG included."""
    return [one for one in root.iter() if name_of(one) == name]


def by_id(root: Element, name: str) -> Element:
    """Return the element of an id."""
    return next(one for one in root.iter() if one.get("id") == name)


def text_of(element: Element) -> str:
    """Return the text of an element, white space as one space."""
    return " ".join("".join(element.itertext()).split())
