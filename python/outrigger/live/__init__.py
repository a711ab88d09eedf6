"""Running jobs, from their keepers' data: on the terminal, on a web page, and for Prometheus."""
