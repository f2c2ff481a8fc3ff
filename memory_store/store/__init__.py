"""Generations in LanceDB: their tables and indexes, which one readers use, and how two compare."""
