"""Compares native and offloaded collectives: runs orbench, prints the table and draws the plot."""
