"""A table of papers' figures and the model's predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.papers.points import Point

_UNITS = {
    "latency_us": " us",
    "bandwidth_gb_per_s": " GB/s",
    "parameter_gb_per_s": " GB/s",
    "crossover_kib": " KiB",
    "latency_ratio": " x",
    "growth": " x",
    "service_gain": " x",
    "fft_communication_ratio": " x",
    "best_services": "",
}
WHAT = {
    "latency_us": "latency",
    "bandwidth_gb_per_s": "rate",
    "parameter_gb_per_s": "rate",
    "overlap_percent": "overlap",
    "native_overlap_percent": "native overlap",
    "latency_ratio": "pure latency, native to offloaded",
    "growth": "growth of latency",
    "service_gain": "one service process to eight",
    "total_gain_percent": "overall time saved",
    "best_services": "service processes",
    "crossover_kib": "crossover",
    "fft_gain_percent": "FFT time saved",
    "fft_communication_ratio": "FFT communication, native to offloaded",
}


def with_unit(value: float, quantity: str) -> str:
    """Three digits, without trailing zeros."""
    unit = _UNITS.get(quantity, " %")
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    number = f"{value:.{digits}f}"
    return (number.rstrip("0").rstrip(".") if "." in number else number) + unit


@dataclass(frozen=True)
class Comparison:
    point: Point
    prediction: float | None

    @property
    def nearest(self) -> float:
        """The stated value that is nearest to the prediction."""
        low = -math.inf if self.point.at_least is None else self.point.at_least
        high = math.inf if self.point.at_most is None else self.point.at_most
        if self.prediction is None:
            return low if math.isfinite(low) else high
        return min(max(self.prediction, low), high)

    @property
    def error(self) -> float | None:
        """In the unit of the band; None without a prediction."""
        if self.prediction is None:
            return None
        if self.point.band.kind == "points":
            return self.prediction - self.nearest
        if self.point.band.kind == "percent":
            return 100 * (self.prediction / self.nearest - 1)
        return math.log2(self.prediction / self.nearest)

    @property
    def is_in(self) -> bool:
        return self.error is not None and abs(self.error) <= self.point.band.width

    @property
    def stated(self) -> str:
        low, high, quantity = self.point.at_least, self.point.at_most, self.point.quantity
        if low is None or high is None:
            return (
                f"at least {with_unit(low, quantity)}"
                if low is not None
                else f"at most {with_unit(high or 0.0, quantity)}"
            )
        return with_unit(low, quantity) if low == high else f"{low:g} to {with_unit(high, quantity)}"

    @property
    def predicted(self) -> str:
        return "none" if self.prediction is None else with_unit(self.prediction, self.point.quantity)

    @property
    def error_text(self) -> str:
        if self.error is None:
            return ""
        unit = {"points": " points", "percent": " %", "octaves": " octaves"}[self.point.band.kind]
        return f"{self.error:+.1f}{unit}" if round(abs(self.error), 1) else "0"


def table(comparisons: Sequence[Comparison]) -> str:
    lines = ["| point | what | paper | prediction | error | band | |", "|---|---|--:|--:|--:|--:|---|"]
    for comparison in comparisons:
        point = comparison.point
        verdict = "calibrated" if point.use == "calibrate" else ("in" if comparison.is_in else "**out**")
        mark = "*" if point.differs else ""
        cells = (
            f"`{point.id}`{mark}", WHAT[point.quantity], comparison.stated, comparison.predicted, comparison.error_text,
            str(point.band), verdict,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(comparisons: Sequence[Comparison]) -> str:
    held_out = [comparison for comparison in comparisons if comparison.point.use == "held_out"]
    within = sum(comparison.is_in for comparison in held_out)
    text = f"{within} of {len(held_out)} held-out points are in their bands"
    same = [comparison for comparison in held_out if not comparison.point.differs]
    if len(same) != len(held_out):
        text += (
            f"; of those whose design is ours as well, {sum(comparison.is_in for comparison in same)} of {len(same)}"
        )
    return text + "."
