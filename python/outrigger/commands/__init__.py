"""Commands of `outrigger`, by their options; some are in the module of their topic."""
