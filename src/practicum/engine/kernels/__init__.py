"""Triton kernels for NVIDIA GPUs: what a decoder does between its matrix products."""
