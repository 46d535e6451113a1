"""Metrics of device kernels: shares, categories, copies, SM use."""
