"""Families of kernels: how each is launched and judged."""
