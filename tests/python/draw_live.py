"""Draws the pictures of docs/using/monitoring.md: `outrigger top` and `outrigger watch`, of a simulated job.

usage: .venv/bin/python tests/python/draw_live.py [DIRECTORY]

Needs chromium and the test packages of ./dev setup. The default directory is docs/using.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from test_exporter import TOKEN, running
from test_watch import Steps, access

from outrigger.live import top, watch
from outrigger.live.simulated import SimulatedJob
from outrigger.live.tracker import Tracker

RANKS = 256
COLUMNS, LINES = 132, 26
UPDATES, INTERVAL_S = 60, 0.1


def draw_top(browser: Browser, path: Path) -> None:
    tracker, steps = Tracker(), SimulatedJob(RANKS, job="run-1", dpus=True).steps()
    for second in range(UPDATES):
        view = tracker.update(next(steps), float(second))
    console = Console(file=io.StringIO(), record=True, width=COLUMNS)
    console.print(top.render(view, COLUMNS, LINES))
    page = browser.new_page(viewport={"width": 1400, "height": 600})
    page.set_content(console.export_svg(title="outrigger top"))
    page.locator("svg").screenshot(path=path)


def draw_page(browser: Browser, path: Path) -> None:
    with running(watch.application(Steps(RANKS, dpus=True), access(), INTERVAL_S)) as port:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.wait_for_selector("#calls tbody tr", timeout=60_000)
        page.wait_for_timeout(1000 * UPDATES * INTERVAL_S)
        page.screenshot(path=path, full_page=True)


def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "docs" / "using"
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        draw_top(browser, place / "top.png")
        draw_page(browser, place / "watch.png")
        browser.close()


if __name__ == "__main__":
    main()
