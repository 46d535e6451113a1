"""Hold every statement of an explanation to the metric and key that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccltui.api import Job


def at(details: Any, path: str) -> Any:
    """Value at a path of keys and indices; a name may have dots itself."""
    if not path:
        return details
    if isinstance(details, Mapping) and path in details:
        return details[path]
    if isinstance(details, Mapping):
        key = max((one for one in details if path.startswith(f"{one}.")), key=len, default=path)
        return at(details[key], path.removeprefix(key).removeprefix("."))
    first, _, rest = path.partition(".")
    return at(details[int(first)], rest)


def unfounded(document: Mapping[str, Any], job: Job) -> list[str]:
    """Statements whose value is not that of their metric, and numbers of the headline likewise."""
    found = []
    for claim in document["claims"]:
        details = job.metric(claim["metric"]).details
        value = claim["value"]
        try:
            stated = at(details, claim["key"])
            if isinstance(value, Mapping):
                same = all(at(stated, key) == number for key, number in value.items())
            else:
                same = stated == value
        except (KeyError, IndexError, ValueError, TypeError) as error:
            same, stated = False, repr(error)
        if not same or value is None:
            found.append(f"{claim['metric']}.{claim['key']}: {value!r} is not {stated!r:.200}")
    for one in document["findings"]:
        for row in one["evidence"]:
            stated = at(job.metric(row["metric"]).details, row["key"])
            if row["value"] is None or stated != row["value"]:
                found.append(f"{row['metric']}.{row['key']}: {row['value']!r} is not {stated!r}")
    verdict = job.metric("verdict").details
    cost = {key: value for key, value in document["cost"].items() if key != "metric"}
    found += [f"cost.{key}" for key, value in cost.items() if verdict.get(key) != value]
    return found
