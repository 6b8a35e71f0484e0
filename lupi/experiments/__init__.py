"""Comparing methods with and without privileged features: protocol, run store, statistics, report."""

from lupi.experiments.comparison import Comparison, compare
from lupi.experiments.methods import METHODS
from lupi.experiments.protocol import Protocol

__all__ = ["METHODS", "Comparison", "Protocol", "compare"]
