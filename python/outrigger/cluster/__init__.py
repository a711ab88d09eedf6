"""A cluster in a box: hosts on this machine that can reach each other by the network alone.

The modules that the launch agent needs (`messages`, `session`) import the standard library only: the agent starts for
every host of every job.
"""
