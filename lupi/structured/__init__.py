"""Structured outputs: tasks, structural SVMs and joint kernel support estimation."""

from lupi.structured.boxes import BoxLocalization
from lupi.structured.chain import Chain
from lupi.structured.multiclass import Multiclass
from lupi.structured.task import Task

__all__ = ["BoxLocalization", "Chain", "Multiclass", "Task"]
