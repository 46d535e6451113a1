"""Measurements of a cluster before training: network, devices, storage, processors, memory."""
