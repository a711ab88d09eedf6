"""The table of algorithms of a machine, by measuring."""
