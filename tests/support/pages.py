"""Reading a rendered report back: its tables, its figures, its elements."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from html.parser import HTMLParser

from markdown_it import MarkdownIt

VOID = {"meta", "link", "br", "img", "hr", "input"}
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_GAP = "\N{NARROW NO-BREAK SPACE}"
_FIGURE = re.compile(rf"(−?)(\d[\d{_GAP}]*(?:\.\d+)?)(?:×10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?|(∞)")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    texts: list[str] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str = "") -> list[Element]:
        """Return every element below of that tag, in the order of the page."""
        found = []
        for child in self.children:
            found += [child] if not tag or child.tag == tag else []
            found += child.all(tag)
        return found

    def with_class(self, name: str) -> list[Element]:
        return [e for e in self.all() if name in e.attributes.get("class", "").split()]

    @property
    def text(self) -> str:
        """All text below, in order, pictures left out."""
        return "".join(self.texts)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if any(element.tag in {"svg", "style"} for element in self.open):
            return
        for element in self.open:
            element.texts.append(data)


def parsed(page: str) -> Element:
    """Return a page as a tree; every element must be closed where it was opened."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is never closed"
    return reader.open[0]


def shown(markdown: str) -> Element:
    """Return Markdown as a reader that lets HTML pass would show it."""
    return parsed(MarkdownIt("commonmark").enable("table").render(markdown))


def cells(table: Element) -> list[list[str]]:
    """Return the text of every cell without spaces and round brackets."""
    return [
        [re.sub(r"[()\s]", "", cell.text) for cell in row.children]
        for row in table.all("tr")
        if any(cell.text.strip() for cell in row.children)
    ]


def figures(text: str) -> list[tuple[Decimal, Decimal]]:
    """Return every number in a text, and one unit of its last digit."""
    found = []
    for sign, digits, power, infinite in _FIGURE.findall(text):
        if infinite:
            found.append((Decimal("Infinity"), Decimal(0)))
            continue
        value = Decimal(digits.replace(_GAP, ""))
        value = value.scaleb(int(power.translate(_LOWERED)) if power else 0)
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        found.append((-value if sign else value, Decimal(1).scaleb(exponent)))
    return found
