"""Names of what a host may do while its device idles, beside those of `host_work`."""

from typing import Final

NOTHING: Final = "nothing recorded"
