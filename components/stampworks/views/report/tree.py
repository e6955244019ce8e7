"""A page as a tree of elements. Text is never parsed as markup, whatever its source."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

from stampworks.text.printable import printable

Child = Element | str | None


def e(tag: str, *children: Child, **attributes: object) -> Element:
    """Make an element. `class_` stands for class, `stroke_width` for stroke-width. None is left out, also as a
    child."""
    names = {name: name.removesuffix("_").replace("_", "-") for name in attributes}
    made = Element(tag, {names[name]: printable(str(value)) for name, value in attributes.items() if value is not None})
    return into(made, children)


def into(parent: Element, children: Iterable[Child]) -> Element:
    """Return the element with more children."""
    for child in children:
        if isinstance(child, Element):
            parent.append(child)
        elif child is not None and len(parent):
            parent[-1].tail = (parent[-1].tail or "") + printable(child)
        elif child is not None:
            parent.text = (parent.text or "") + printable(child)
    return parent


def document(root: Element) -> str:
    """Return the text of the file."""
    return f"<!DOCTYPE html>\n{tostring(root, encoding='unicode', method='html')}\n"


def table(header: Iterable[object], rows: Iterable[Iterable[object]], class_: str | None = None) -> Element:
    """Make a table with a header that repeats on each printed page. A cell that is a th or td stays one."""
    head = e("tr", *(_cell("th", cell) for cell in header))
    body = [e("tr", *(_cell("td", cell) for cell in row)) for row in rows]
    for above, below in zip(head, body[0] if body else (), strict=False):
        if below.get("class") == "number":
            above.set("class", "number")
    return e("table", e("thead", head), e("tbody", *body), class_=class_)


def _cell(tag: str, content: object) -> Element:
    if isinstance(content, Element):
        return content if content.tag in ("th", "td") else e(tag, content)
    return e(tag, str(content))


def figure(text: str) -> Element:
    """Make a cell with a number."""
    return e("td", text, class_="number")


def name(text: str) -> Element:
    """Make a cell with a name, which may be long."""
    return e("td", text, class_="name")


def derived(text: str) -> Element | None:
    """Make the derivation of a number, in small print."""
    return e("div", text, class_="derived") if text else None
