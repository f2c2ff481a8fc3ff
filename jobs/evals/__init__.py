"""Measurements of what jobs make, on data with labels."""
