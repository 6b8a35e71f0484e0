"""Structured outputs."""
