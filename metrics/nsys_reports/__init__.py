"""Compute the reports of ``nsys stats``, with results equal to those of nsys.

A window selects whole rows, as ``--filter-time`` does: durations are never clipped and starts
never moved. The metrics of the parent package clip instead and document it.
"""
