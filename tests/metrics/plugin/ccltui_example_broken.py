"""A plug-in that cannot be imported."""

raise RuntimeError("needs a licence")
