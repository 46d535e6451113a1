"""The verbs of ``ccltui`` and the module in ``commands/`` that runs each."""

from typing import Final

VERBS: Final = {
    "analyse": "analyse",
    "card": "card_command",
    "demo": "demo_command",
    "diff": "diff_command",
    "doctor": "doctor_command",
    "metrics-report": "metrics_report",
    "stats": "stats_command",
}
"""Module of each verb: it has a function ``run`` of the arguments after the verb."""
