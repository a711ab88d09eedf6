"""`outrigger chaos`: runs a program repeatedly while its service processes are killed and stopped."""
