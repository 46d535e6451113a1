"""Metrics: pure functions from columns to numbers, each with unit and definition.

A metric is one file of :mod:`ccltui.metrics.catalog`, found by :mod:`ccltui.metrics.registry`.
Nothing here depends on the terminal.
"""
