"""A self-contained HTML page: styles and pictures are inside, and there are no scripts and no links to other hosts."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 66rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top;
         overflow-wrap: anywhere; }
td { font-variant-numeric: tabular-nums; }
pre { background: #f4f4f4; padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; }
"""


class Page:
    """Collects a page's parts. All arguments are escaped as text, since names may be hostile."""

    def __init__(self, title: str):
        self._title = title
        self._parts: list[str] = [f"<h1>{_text(title)}</h1>"]

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{_text(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{_text(text)}</p>")

    def code(self, text: str) -> None:
        """Add text for users to copy."""
        self._parts.append(f"<pre>{_text(text)}</pre>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def picture(self, png: bytes, description: str) -> None:
        """Add a PNG, inside the page."""
        data = base64.b64encode(png).decode()
        self._parts.append(f'<p><img alt="{_text(description)}" src="data:image/png;base64,{data}"></p>')

    def render(self) -> str:
        """Return the page. Its content security policy forbids a browser to load anything."""
        policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{_text(self._title)}</title><style>{_STYLE}</style></head>\n<body>\n"
            + "\n".join(self._parts)
            + "\n</body></html>\n"
        )


def _text(value: str) -> str:
    return html.escape(value, quote=True)
