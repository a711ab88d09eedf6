"""`outrigger doctor`: checks whether Outrigger works on this machine and suggests remedies."""
