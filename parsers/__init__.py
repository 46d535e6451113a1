"""Files of any age become columns: discovery, readers, the column store and ingest.

Nothing in this package knows a metric or a screen. The data model is in
:mod:`ccltui.parsers.columns`; :func:`ccltui.parsers.job.open_job` is the one door.
"""
