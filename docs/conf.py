"""How the documentation is built: `make docs`. Nothing is fetched from the network."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import fedualex

project = "fedualex"
author = "the fedualex contributors"
version = release = fedualex.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "plain_docstrings", "listings"]
exclude_patterns = ["_build", "_ext"]
root_doc = "index"

# Links to headings, as repositories show them.
myst_heading_anchors = 4

# Types of arguments are in the sentences that describe them: signatures of twenty keywords stay readable.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
add_module_names = False
python_maximum_signature_line_length = 100

# Quotation marks stay as they are typed: many of them are code.
smartquotes = False

# A block without a language is output or a formula.
highlight_language = "none"
html_theme = "furo"
html_title = f"fedualex {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def setup(app):
    """In a repository a link reads best as the file's name, on the site as the title of the page."""
    app.connect("source-read", lambda app, page, source: source.__setitem__(0, NAMED.sub("[](", source[0])))


NAMED = re.compile(r"\[[\w/]+\.md\]\(")
