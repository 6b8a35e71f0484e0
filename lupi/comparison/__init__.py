"""Comparing methods with and without privileged features: protocol, run store, statistics, report."""

from lupi.comparison.comparison import Comparison, compare
from lupi.comparison.methods import METHODS
from lupi.comparison.protocol import Protocol

__all__ = ["METHODS", "Comparison", "Protocol", "compare"]
