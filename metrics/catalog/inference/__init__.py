"""Metrics of inference: request latencies, prefill and decode, experts."""
