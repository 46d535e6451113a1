"""Validate documents against the published schemas, with every unknown member refused."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from ccltui.commands.schema_command import schema_text


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema_text(name))
    return found


def closed(node: Any) -> Any:
    """A schema that refuses members that it does not name.

    The published one allows them, since releases may add members; a member that is printed and not
    described is an error here.
    """
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: closed(value) for key, value in node.items()}
    if isinstance(found.get("properties"), dict) and "type" in found:
        found.setdefault("additionalProperties", False)
    return found


def problems(name: str, document: Any) -> list[str]:
    """What is wrong with a document of that name, by the place in it."""
    validator = jsonschema.Draft202012Validator(closed(schema(name)))
    return [
        f"{name}: {one.json_path}: {one.message[:300]}" for one in validator.iter_errors(document)
    ]
