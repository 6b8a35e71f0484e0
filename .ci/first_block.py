"""Run the first Python block of a Markdown file: `python first_block.py README.md`."""

import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
exec(compile(text.split("```python\n")[1].split("```")[0], sys.argv[1], "exec"))
