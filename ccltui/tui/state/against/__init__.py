"""The second path of ``ccltui A B``: what it is, and its numbers beside those of the open job."""
