"""Measuring native against offloaded collectives: running orbench, the table and the plot."""
