"""Data frames in, predictions out."""
