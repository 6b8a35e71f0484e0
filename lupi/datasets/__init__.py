"""Bundled and generated data, and readers of original file layouts."""
