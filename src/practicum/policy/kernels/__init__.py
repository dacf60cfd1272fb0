"""Triton kernels for NVIDIA GPUs: what a decoder does between its matrix products.

Import the modules of this folder only where they will run: they load Triton, which not every
install has. They allocate only what they return or write to, give the same bits for the same input,
and but for `TreeBlocks.of` wait for nothing on the host, so that they can be captured in a CUDA
graph and replayed.
"""
