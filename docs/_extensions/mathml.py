"""Formulas as MathML, which browsers draw by themselves: a page needs no script and no network for them."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError
from sphinx.util.math import wrap_displaymath

# What the converter would not know, or would not know how to space.
WRITTEN_OUT = (
    (r"{aligned}", r"{align*}"),
    ("'", r"^{\\top}"),  # an apostrophe transposes everywhere here; a prime in an exponent is too small to be seen
    (r"(?<![\\t])\|([^|\\]+)\|", r"\\left|\1\\right|"),  # norms and sizes: which bar opens, which one closes
    (r"\\\|(.+?)\\\|", r"\\left\|\1\\right\|"),
)


def to_mathml(tex, display):
    """MathML of a formula; what the converter does not know stops the build rather than be shown as TeX."""
    for what, instead in WRITTEN_OUT:
        tex = re.sub(what, instead, tex)
    found = convert(tex, display=display)
    unknown = re.findall(r"\\[A-Za-z]+", found)
    if unknown:
        raise ExtensionError(f"no MathML for {', '.join(unknown)} in the formula {tex!r}; write it in another way.")
    return found


def inline(translator, node):
    """A formula inside a line."""
    translator.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(translator, node):
    """A formula of its own; several lines as the rows of one table."""
    tex = node.astext()
    if "\\\\" in tex and "\\begin" not in tex:
        tex = wrap_displaymath(tex, None, False).strip().removeprefix(r"\[").removesuffix(r"\]")
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    translator.body.append(to_mathml(tex, "block"))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
