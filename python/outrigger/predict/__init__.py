"""`outrigger predict`: what a program would take on a cluster that one does not have."""
