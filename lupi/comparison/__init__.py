"""Comparisons of methods with and without privileged features: problem, units, results, verdict, report."""

from lupi.comparison.comparison import Comparison, Options, compare
from lupi.comparison.methods import METHODS

__all__ = ["METHODS", "Comparison", "Options", "compare"]
