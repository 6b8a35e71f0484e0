"""Structured outputs: what a task is, and the ones that are built in."""

from lupi.tasks.boxes import BoxLocalization
from lupi.tasks.chain import Chain
from lupi.tasks.multiclass import Multiclass
from lupi.tasks.protocol import Task

__all__ = ["BoxLocalization", "Chain", "Multiclass", "Task"]
