"""Write the values of metrics as a table in Markdown."""

from ccltui.report.json_document import Report


def write_markdown(report: Report) -> bytes:
    """Return one row for each metric; a value that is unavailable has its reason."""
    lines = ["| metric | value | unit | status |", "|---|---|---|---|"]
    for entry in report.entries:
        result = entry.result
        value = "" if result.value is None else f"{result.value:g}"
        status = ": ".join(text for text in (result.status, result.reason) if text)
        lines.append(f"| {result.metric} | {value} | {result.unit} | {status} |")
    return ("\n".join(lines) + "\n").encode()
