"""What pays for a program: it is run in several ways, and its reports are read."""
