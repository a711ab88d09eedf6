"""`outrigger lab calibrate`: the numbers of a cluster file, from measurements."""
