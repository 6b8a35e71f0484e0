"""Comparing methods with and without privileged features: read, encode, protocol, units, summary, verdict, render."""

from lupi.comparison.comparison import Comparison, compare
from lupi.comparison.methods import METHODS
from lupi.comparison.protocol import Protocol

__all__ = ["METHODS", "Comparison", "Protocol", "compare"]
