"""Structured outputs: what a task is, and the ones that are built in."""

from lupi.structured.boxes import BoxLocalization
from lupi.structured.chain import Chain
from lupi.structured.multiclass import Multiclass
from lupi.structured.protocol import Task

__all__ = ["BoxLocalization", "Chain", "Multiclass", "Task"]
