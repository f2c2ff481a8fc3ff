"""Rows of a store laid out in memory for searching: files that processes share, and what is asked of them."""
