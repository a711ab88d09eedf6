"""A cluster in a box: hosts on this machine that reach each other only by the network.

The modules of the launch agent (`messages`, `session`) import only the standard library: the agent starts for every
host of every job.
"""
