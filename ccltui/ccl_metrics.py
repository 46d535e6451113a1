"""``python -m ccltui.ccl_metrics``: the command ``ccl-metrics``."""

import sys

# This import takes the working directory off the path on which modules are found.
from ccltui.__main__ import main_metrics

if __name__ == "__main__":
    sys.exit(main_metrics())
