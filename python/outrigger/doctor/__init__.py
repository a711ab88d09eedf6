"""`outrigger doctor`: whether Outrigger works on this machine, and what to do where it does not."""
