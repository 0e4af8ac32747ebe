"""HTML templates of the plan's report and the progress page; every value is escaped."""

from __future__ import annotations

import jinja2


def html_templates(package: str) -> jinja2.Environment:
    """Return the templates in the folder of a package."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
