"""Models for other programs: plain scikit-learn, ONNX. Both are written from one `Formula` of the fitted model."""

from lupi.interop.onnx_graph import to_onnx
from lupi.interop.plain import to_sklearn

__all__ = ["to_onnx", "to_sklearn"]
