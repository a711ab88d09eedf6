"""Finds out what makes a program faster: runs it in several ways and reads the reports."""
