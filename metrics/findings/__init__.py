"""Findings: what costs time in a recording, where, how much, how sure, and what to do about it.

In the order of the thought: `rank_time` (where time goes), `waits` (who waits for whom), `causes`
(what the late rank did), `replay` (what mending it saves), `culprits` (who, from all of these),
`sentences`, `recordings` (which kind of recording it is, and the answer of each).
"""
