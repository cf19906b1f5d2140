"""Names from tables inside of Markdown: as code, so that nothing in them is read as mark-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dpkv.releases.record import ReleaseRecord

_MOST_SHOWN = 20


def as_code(name: str) -> str:
    """Return a name between as many backticks as it takes, in one line whatever it holds."""
    name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    longest = max((len(run) for run in re.findall("`+", name)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {name} {fence}" if longest else f"`{name}`"


def as_text(words: str) -> str:
    """Return somebody's own words so that Markdown shows them and reads no mark-up in them."""
    return re.sub(r"([\\`*_\[\]<>#|!])", r"\\\1", words)


def in_words(parts: Iterable[str], most: int = _MOST_SHOWN) -> str:
    """Return a list in words; one that is very long is cut, and says so."""
    shown = list(parts)
    rest = len(shown) - most
    return ", ".join(shown if rest <= 0 else [*shown[:most], f"and {rest} more"])


def bullets(lines: Sequence[str]) -> str:
    """Return a list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def sentence(text: str) -> str:
    """Return a text that begins and ends as a sentence does; a symbol stays as it is."""
    is_symbol = re.match(r"(k|dpkv)\b", text) is not None
    return (text if is_symbol else text[:1].upper() + text[1:]) + (
        "" if text.endswith(".") else "."
    )


def told_domain(record: ReleaseRecord) -> str:
    """Return the columns that entered distances, with the values that the bounds allow."""
    facts = {facts.name: facts for facts in record.plan.table}
    low, high = record.extent
    pairs = dict(zip(record.columns, zip(low, high, strict=True), strict=True))
    shown = []
    for name, column in facts.items():
        if column.categories:
            names = in_words(as_code(one) for one in column.categories)
            shown.append(f"{as_code(name)} (one of {names})")
        elif name in pairs:
            least, most = pairs[name]
            shown.append(f"{as_code(name)} ({least:g} to {most:g})")
    return in_words(shown)


def told_sizes(record: ReleaseRecord) -> str | None:
    """Return the largest relative error of a size that noise causes, and of which cluster."""
    known = [
        (cluster.size_sd / cluster.size, number, cluster.size, cluster.size_sd)
        for number, cluster in enumerate(record.clusters, 1)
        if cluster.size and cluster.size_sd is not None
    ]
    if not known:
        return None
    share, number, size, error = max(known)
    return (
        f"the least certain size is that of centre {number}: {size:,.0f} with a standard error of "
        f"{error:,.3g}, which is {share:.2g} of it"
    )


def told_errors(record: ReleaseRecord) -> str | None:
    """Return the largest standard error of a centre in every column, due to noise."""
    errors = [one.center_sd for one in record.clusters if one.center_sd is not None]
    if not errors:
        return None
    largest = [max(column) for column in zip(*errors, strict=True)]
    shown = in_words(
        f"{error:.3g} in {as_code(name)}"
        for name, error in zip(record.columns, largest, strict=True)
    )
    return f"standard errors of centres due to noise are at most {shown}"
