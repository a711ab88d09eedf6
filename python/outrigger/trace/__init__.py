"""A job over time: events from the library, their timeline, and its picture."""
