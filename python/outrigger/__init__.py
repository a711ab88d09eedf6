"""The command line of Outrigger: run, bench and inspect programs whose collectives run on service processes."""

__version__ = "0.1.0"
