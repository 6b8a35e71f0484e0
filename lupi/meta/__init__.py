"""Estimators that wrap other estimators."""
