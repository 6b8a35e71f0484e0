"""Export of fitted models to ONNX."""

from lupi.interop.export import to_onnx

__all__ = ["to_onnx"]
