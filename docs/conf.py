"""The site: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``. Nothing is fetched while it is built."""

import re
import sys
from pathlib import Path

from sphinx_gallery.sorting import FileNameSortKey

import lupi

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "lupi"
author = "The lupi developers"
project_copyright = author
version = release = lupi.__version__

extensions = [
    "myst_parser",  # before the others: every page is Markdown and readable without the site
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",  # of `_extensions`
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "_extensions", "_templates"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # functions in the gallery's settings cannot be pickled

myst_enable_extensions = ["deflist", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say it in words
numpydoc_show_class_members = False  # the template of a class lists them


class GalleryOrder(FileNameSortKey):
    """Of the thumbnails: first whether it helps, then how; an example that is not listed stops the build."""

    names = [
        "yes_young_men",
        "no_digits",
        "unlabeled_rows",
        "noisy_labels",
        "which_column",
        "surrogate_and_label",
        "compare",
        "slack_and_margin",
        "c_lam_kappa",
        "rank_transfer",
        "boxes",
        "chain",
        "big_data",
    ]

    def __call__(self, filename):
        """Place of an example."""
        return self.names.index(filename.removeprefix("plot_").removesuffix(".py"))


sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "within_subsection_order": GalleryOrder,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "lupi"
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "start", "should_i_use_this")}  # they have no pages below them
html_theme_options = {
    "logo": {"text": "lupi"},
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
}


def skip_inherited_from_scikit_learn(app, what, name, member, skip, options):
    """Methods such as ``get_params`` are documented at home; their texts refer to labels of scikit-learn's own site."""
    del app, what, name, options
    module = getattr(member, "__module__", None) or ""
    return True if module.split(".")[0] == "sklearn" else skip


def link_to_pages(app, docname, source):
    """The pages link to files where the repository has them; on the site these files are pages."""
    del app, docname
    text = source[0].replace("](../SECURITY.md", "](security.md")
    text = re.sub(r"\]\((\.\./)?\.\./benchmarks/README\.md", r"](\1benchmarks.md", text)
    source[0] = re.sub(r"\]\((\.\./)?\.\./examples/gallery/(plot_\w+)\.py\)", r"](\1gallery/\2.rst)", text)


def setup(app):
    """Connect the two functions above."""
    app.connect("source-read", link_to_pages)
    app.connect("autodoc-skip-member", skip_inherited_from_scikit_learn)
