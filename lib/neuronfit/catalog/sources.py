"""Where the rows of the catalogue come from: one entry per document, file or data set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from neuronfit.catalog import tables
from neuronfit.errors import NotFound, nearest

__all__ = ["CatalogSource", "every", "find"]


@dataclass(frozen=True)
class CatalogSource:
    """One document. ``location`` is a repository with path and commit, or a documentation page.

    ``as_of`` is an ISO date, shortened to month or year where no more is known.
    """

    id: str
    title: str
    location: str
    as_of: str
    trust: str


@lru_cache(maxsize=None)
def _by_id() -> dict[str, CatalogSource]:
    return {row["id"]: CatalogSource(**row) for row in tables.read("sources")}


def find(source_id: str) -> CatalogSource:
    """The source with this id. Raises :class:`~neuronfit.errors.NotFound` with the nearest ids."""
    try:
        return _by_id()[source_id]
    except KeyError:
        near = nearest(source_id, _by_id())
        raise NotFound("unknown source", source_id, allowed=", ".join(near or _by_id())) from None


def every() -> tuple[CatalogSource, ...]:
    """All sources, in file order."""
    return tuple(_by_id().values())
