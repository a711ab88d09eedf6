"""Errors that a user can do something about."""


class UserError(Exception):
    """Printed as one message, without a traceback; the command ends with exit code 2."""
