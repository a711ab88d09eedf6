"""Jobs while they run: what their keepers tell, on the terminal, on a page, and for Prometheus."""
