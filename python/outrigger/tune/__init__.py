"""Measures a machine's table of algorithms."""
