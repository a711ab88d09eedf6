"""`outrigger lab predict`: what a program would take on a cluster that one does not have."""
