"""Displays as in scikit-learn: `Display.from_estimator(...)` or `from_comparison(...)`, with `ax` and `plot`."""

from lupi.plot.correction import CorrectionDisplay
from lupi.plot.critical_difference import CriticalDifferenceDisplay
from lupi.plot.curve import LearningCurveDisplay
from lupi.plot.gains import GainsDisplay
from lupi.plot.surrogate import ColumnEvidenceDisplay, SurrogateDisplay, TeacherWeightsDisplay

__all__ = [
    "ColumnEvidenceDisplay",
    "CorrectionDisplay",
    "CriticalDifferenceDisplay",
    "GainsDisplay",
    "LearningCurveDisplay",
    "SurrogateDisplay",
    "TeacherWeightsDisplay",
]
