"""The page on structured outputs runs."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_code_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "structured.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    page = {"__name__": "page"}
    for block in blocks:
        exec(block, page)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[Box(")
    assert lines[1].startswith("{'words': (50,), 'tags': (60,)}")
    score, gap = map(float, lines[-1].split())
    assert score > 0.9
    assert gap <= 0.01
