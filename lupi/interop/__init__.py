"""Models for other programs: plain scikit-learn, ONNX."""
