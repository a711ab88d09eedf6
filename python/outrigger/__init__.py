"""The command line of Outrigger: runs, benchmarks and inspects programs whose collectives run on service processes."""

__version__ = "0.1.0"
