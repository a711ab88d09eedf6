"""Commands of `outrigger`, by their options; others are with what they do."""
