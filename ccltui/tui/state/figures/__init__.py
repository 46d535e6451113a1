"""Figures of Overview: metrics by group, their values by rank, tables behind them, ranks."""
