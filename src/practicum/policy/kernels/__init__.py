"""Triton kernels for NVIDIA GPUs: what a decoder does between its matrix products.

Import the modules of this folder only where they will run: they load Triton, which not every
install has. They wait for nothing on the host, allocate only what they return or write to, and give
the same bits for the same input, so that they can be captured in a CUDA graph and replayed.
"""
