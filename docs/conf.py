"""How Sphinx builds the documentation as a site: `turno docs`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

project = "Turno"
# The whole checkout is the source, so that pages may show and link any of its files; only these are pages.
include_patterns = ["README.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = sorted({entry.name for entry in ROOT.iterdir()} - {"README.md", "CHANGELOG.md", "docs"})
root_doc = "docs/index"

extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Turno"
html_extra_path = ["site/root"]
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
# Sessions on a console are cut (`…`), and so are answers: a lexer that does not know the mark is no defect.
suppress_warnings = ["misc.highlighting_failure"]
