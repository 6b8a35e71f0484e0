"""Displays as in scikit-learn: `Display.from_estimator(...)` or `from_comparison(...)`, with `ax` and `plot`."""

from lupi.plot.figures import GainsDisplay, LearningCurveDisplay
from lupi.plot.models import ColumnEvidenceDisplay, CorrectionDisplay, SurrogateDisplay, TeacherWeightsDisplay

__all__ = [
    "ColumnEvidenceDisplay",
    "CorrectionDisplay",
    "GainsDisplay",
    "LearningCurveDisplay",
    "SurrogateDisplay",
    "TeacherWeightsDisplay",
]
