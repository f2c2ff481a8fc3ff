"""Settings of the indexes of the store, and of what a search looks at one by one instead."""

from __future__ import annotations

from pydantic import Field

from .section import Section


class IndexSettings(Section):
    """When the store has indexes, and how they are asked. docs/latency.md has what was measured."""

    #: Up to this many rows of a table, filters are fast without an index
    scan_rows: int = Field(2_000, ge=0)
    #: Above this many numbers in the vectors of a table (rows × length) they get an index
    vector_numbers: int = Field(1_000_000, ge=0)
    #: Where a filter leaves no more than this many rows, their vectors are compared one by one, index or not
    exact_matches: int = Field(1_000, ge=0, le=100_000)
    #: Partitions of the vector index that are looked at when every row passes; more under a filter
    probes: int = Field(20, ge=1)
    #: How many times more rows than wanted the index supplies, to be compared by their whole vectors
    refine: int = Field(2, ge=1, le=50)
    #: Rows that may wait until the indexes take them in: each is looked at by every search till then
    waiting_rows: int = Field(2_000, ge=0)
    #: Most megabytes of the files beside a table that its rows are laid out in for searching; 0: none are made or used
    resident_mb: int = Field(4_096, ge=0)
    #: Folder of this machine that keeps a copy of the store of a home in a bucket, for searches; empty: none is made
    copy_to: str = ""
    #: Most megabytes of a store that is copied there
    copy_mb: int = Field(10_240, ge=0)
    #: Seconds after which searches have the copy brought up to date; what came since is read from the lake
    copy_seconds: float = Field(60.0, ge=0)
    #: Most megabytes of indexes that a process keeps in memory
    cache_mb: int = Field(1_024, ge=16)
