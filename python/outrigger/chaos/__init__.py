"""`outrigger lab chaos`: a program is run over and over while its service processes are killed and stopped."""
