"""A self-contained HTML page: styles and pictures are inside, and there are no scripts and no links to other hosts."""

from __future__ import annotations

import base64
import html
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --edge: #ddd; --code: #f4f4f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #d7dce2; --paper: #12161c; --edge: #3a4149; --code: #1d232b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 90rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--edge); vertical-align: top;
         overflow-wrap: anywhere; }
td { font-variant-numeric: tabular-nums; }
pre { background: var(--code); padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .85rem; }
img, video { max-width: 100%; height: auto; border-radius: 4px; }
/* A white frame makes a picture that is white in dark pages, too, look meant. */
figure > img { box-sizing: border-box; padding: .4rem; background: #fff; }
video { width: 100%; max-height: 26rem; background: #000; }
summary { cursor: pointer; font-size: 1.2rem; font-weight: bold; margin-top: 1.6rem; }
"""
_FIGURE = "<figure>"


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
        """Add a table without the columns that are empty in every row."""
        kept = [place for place in range(len(header)) if not rows or any(row[place] for row in rows)]
        head = "".join(f"<th>{_text(header[place])}</th>" for place in kept)
        body = "".join("<tr>" + "".join(f"<td>{_text(row[place])}</td>" for place in kept) + "</tr>" for row in rows)
        self._parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")

    def picture(self, png: bytes, description: str, dark: bytes | None = None) -> None:
        """Add a PNG, inside the page; pictures that follow one another stand side by side where there is room.

        Args:
            png: the picture.
            description: for those who do not see it.
            dark: the same picture for a dark page; None: `png` has a white frame there.
        """
        shown = f'<img alt="{_text(description)}" src="{_data(png, "image/png")}">'
        if dark is not None:
            source = f'<source media="(prefers-color-scheme: dark)" srcset="{_data(dark, "image/png")}">'
            shown = f"<picture>{source}{shown}</picture>"
        self._parts.append(f"{_FIGURE}{shown}</figure>")

    def video(self, video: bytes, kind: str, description: str) -> None:
        """Add a video, inside the page.

        Args:
            video: content of the file.
            kind: its MIME type; a GIF is shown as a picture.
            description: below the video.
        """
        words, source = _text(description), _data(video, kind)
        shown = f'<video controls muted src="{source}"></video>'
        if kind == "image/gif":
            shown = f'<img alt="{words}" src="{source}">'
        self._parts.append(f"{_FIGURE}{shown}<figcaption>{words}</figcaption></figure>")

    @contextmanager
    def folded(self, title: str) -> Iterator[None]:
        """Fold what the block adds below a title that opens it."""
        self._parts.append(f"<details><summary>{_text(title)}</summary>")
        yield
        self._parts.append("</details>")

    def render(self) -> str:
        """Return the page. Its content security policy forbids a browser to load anything."""
        policy = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{_text(self._title)}</title><style>{_STYLE}</style></head>\n<body><main>\n"
            + "\n".join(_side_by_side(self._parts))
            + "\n</main></body></html>\n"
        )


def _side_by_side(parts: Sequence[str]) -> Iterator[str]:
    """Yield the parts, with figures that follow one another in one grid."""
    for is_figure, group in itertools.groupby(parts, lambda part: part.startswith(_FIGURE)):
        together = list(group)
        yield from ['<div class="pictures">', *together, "</div>"] if is_figure else together


def _data(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _text(value: str) -> str:
    return html.escape(value, quote=True)
