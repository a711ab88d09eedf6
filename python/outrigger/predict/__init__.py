"""`outrigger predict`: a program's time on a cluster that is not available."""
