"""Turns the formulas of the pages into MathML when the site is built: pages need no script."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula of a page."""
    content = _DISPLAY.sub(
        lambda found: f'<div class="formula">{_mathml(found[1], "block")}</div>', content
    )
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(formula: str, display: str) -> str:
    return convert(html.unescape(formula), display=display)
