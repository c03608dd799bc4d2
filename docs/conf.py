"""How the pages are built: ``sphinx-build -W -b html docs docs/_build/html``, without a network."""

from __future__ import annotations

import re
from typing import Any

import matplotlib

import counterpoise

matplotlib.use("agg")

project = "counterpoise"
author = "The counterpoise developers"
project_copyright = author
version = release = counterpoise.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
# The reruns of the paper are Markdown, written by the command, and read where they are.
templates_path = ["_templates"]
exclude_patterns = ["_build", "reproduction/*.md", "sg_execution_times.rst", "auto_examples/sg_execution_times.rst"]
autosummary_generate = True
# Names that differ in case only would share a file on some systems.
autosummary_filename_map = {
    "counterpoise.Backtest": "counterpoise.Backtest-class",
    "counterpoise.Path": "counterpoise.Path-class",
}
autodoc_typehints = "none"
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # scikit-learn adds these to every estimator.
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, set_transform_request",
}
numpydoc_show_class_members = False
suppress_warnings = ["config.cache"]

html_theme = "pydata_sphinx_theme"
html_title = "counterpoise"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
# Pages without pages below them have no use for a list of these.
html_sidebars = {page: [] for page in ("start", "choose", "proved", "compare", "commands", "fuzz")}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "ignore_pattern": "own_",
    "within_subsection_order": "ExampleTitleSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}


def escape_formulas(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep |x| and mean_ in docstrings from being read as markup; what is within backticks stays."""
    for k, line in enumerate(lines):
        parts = re.split(r"(``.*?``|:\w+:`.*?`)", line)
        parts[::2] = [re.sub(r"(?<!\\)\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
        lines[k] = "".join(parts)


def setup(app: Any) -> None:
    """Let docstrings hold formulas."""
    app.connect("autodoc-process-docstring", escape_formulas, priority=1000)
