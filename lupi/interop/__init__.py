"""Export of fitted models to ONNX."""

from lupi.interop.onnx_graph import to_onnx

__all__ = ["to_onnx"]
