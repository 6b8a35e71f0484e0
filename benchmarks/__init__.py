"""Speed and exactness of lupi beside other tools: ``python -m benchmarks --list``."""
