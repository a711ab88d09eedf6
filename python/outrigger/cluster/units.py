"""Parses and formats rates and times."""

from __future__ import annotations

import re

from outrigger.errors import UserError

_BITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}

# tbf's rate field has 32 bits, in bytes per second; below the minimum, a burst would last for seconds.
RATE_AT_LEAST_BITS = 10**6
RATE_AT_MOST_BITS = 34 * 10**9
_LATENCY_AT_MOST_US = 10 * 10**6


def _split(text: str) -> tuple[float, str] | None:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    return (float(match[1]), match[2]) if match else None


def parse_rate(text: str) -> int:
    """Bits per second, from text like 1gbit."""
    parts = _split(text)
    if parts is None or parts[1] not in _BITS:
        raise UserError(f"--rate {text}: a number and a unit are needed, like 100mbit or 1gbit")
    bits = round(parts[0] * _BITS[parts[1]])
    if not RATE_AT_LEAST_BITS <= bits <= RATE_AT_MOST_BITS:
        raise UserError(f"--rate {text}: rates from 1mbit to 34gbit are possible")
    return bits


def parse_latency(text: str) -> int:
    """Microseconds, from text like 50us."""
    parts = _split(text)
    if parts is None or parts[1] not in _MICROSECONDS:
        raise UserError(f"--latency {text}: a number and a unit are needed, like 50us or 1ms")
    microseconds = round(parts[0] * _MICROSECONDS[parts[1]])
    if microseconds > _LATENCY_AT_MOST_US:
        raise UserError(f"--latency {text}: at most 10s")
    return microseconds


def parse_share(option: str, text: str) -> float:
    """A fraction, from text like 1%."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    share = float(match[1]) / 100 if match else -1.0
    if not 0 <= share < 1:
        raise UserError(f"{option} {text}: a fraction of the frames is needed, like 1% or 0.1%, less than 100%")
    return share


def format_share(share: float) -> str:
    """1%."""
    return f"{share * 100:g}%"


def _format(value: float, units: list[tuple[float, str]]) -> str:
    for factor, unit in units:
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}{units[-1][1]}"


def format_rate(bits: int) -> str:
    """1gbit."""
    return _format(bits, [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit"), (1, "bit")])


def format_latency(microseconds: int) -> str:
    """50us."""
    return _format(microseconds, [(1e6, "s"), (1e3, "ms"), (1, "us")])
