"""Metrics: pure functions from columns to numbers, each with unit, definition and reason.

A metric is one small file; :mod:`ccltui.metrics.registry` finds it. Nothing here opens a screen.
"""
