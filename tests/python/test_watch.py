"""The page: who is let in, and, in a real browser, that it shows what is said, in both themes, narrow and wide, and
keeps up with thousands of ranks."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import time
from pathlib import Path

import msgspec
import pytest
from test_exporter import LOOPBACK, TOKEN, ask, running

from outrigger.live import answer, watch
from outrigger.live import web as server
from outrigger.live.simulated import SimulatedJob

SHOTS = os.environ.get("OUTRIGGER_TEST_SHOTS")
"""A directory: pictures stay there, for people."""
RANKS = 4096
MOST_UPDATE_MS = 100
"""Median, of updates that are a second apart. Beside busy compilers it was 53 ms."""


def access() -> server.Access:
    return server.access_of(LOOPBACK, TOKEN, cookie="outrigger-test")


class Steps:
    """A job that goes on each time that it is asked."""

    def __init__(self, ranks: int, *, dpus: bool = False, **changes: object) -> None:
        self._steps = SimulatedJob(ranks, job="run-1", dpus=dpus).steps()
        self._changes = changes
        self.problems: tuple[str, ...] = ()

    def __call__(self) -> answer.Told:
        nodes = next(self._steps)
        return answer.Told(tuple(msgspec.structs.replace(node, **self._changes) for node in nodes), self.problems)


def test_only_with_the_token():
    with running(watch.application(Steps(4), access(), 0.1)) as port:
        for path in ("/", "/watch.js", "/events", "/?token=wrong"):
            assert ask(port, path)[0] == 401, path
        assert ask(port, f"/?token={TOKEN}", Host="evil.example")[0] == 421
        assert ask(port, f"/?token={TOKEN}", "POST")[0] == 405
        status, _, headers = ask(port, f"/?token={TOKEN}")
        assert (status, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        status, text, headers = ask(port, "/", Cookie=cookie.split(";")[0])
        assert status == 200 and "<title>Outrigger</title>" in text
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert ask(port, "/watch.py", Cookie=cookie.split(";")[0])[0] == 404
        assert ask(port, "/..%2fwatch.py", Cookie=cookie.split(";")[0])[0] == 404


@pytest.mark.parametrize("source", (Steps(4), lambda: answer.Told(())), ids=("job", "no job"))
def test_the_first_event_arrives_at_once_uncompressed(source):
    with running(watch.application(source, access(), 60.0)) as port:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        link.request("GET", "/events", headers={"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip, deflate"})
        events = link.getresponse()
        first = events.readline()
        assert events.headers["Content-Encoding"] is None
        assert len(json.loads(first.removeprefix(b"data: "))["jobs"]) == isinstance(source, Steps)
        link.close()


def test_the_page_needs_no_other_server():
    page = Path(watch.__file__).parent / "page"
    for file in page.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.|innerHTML|eval\(|style=", text), file


def opened(browser, port: int, width: int = 1280, height: int = 900, scheme: str = "light"):
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
    page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
    page.wait_for_selector("#calls tbody tr", timeout=60_000)
    for _ in range(600):  # the page's policy forbids waiting inside the page
        if page.evaluate("performance.getEntriesByName('update').length") >= 4:
            break
        page.wait_for_timeout(100)
    return page


def picture(page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("width", (400, 1280))
def test_it_shows_what_is_said(browser, scheme, width):
    with running(watch.application(Steps(256, dpus=True), access(), 0.2)) as port:
        page = opened(browser, port, width, scheme=scheme)
        assert f"token={TOKEN}" not in page.url
        assert page.get_attribute("html", "data-theme") == scheme
        rows = page.locator("#calls tbody tr")
        assert rows.count() == 3 and "MPI_Ialltoall" in rows.all_inner_texts()[0] + rows.all_inner_texts()[1]
        assert "256 ranks, 4 nodes, Open MPI" in page.inner_text("#about")
        assert page.locator("#dpus tbody tr").count() == 4 and "node3-dpu" in page.inner_text("#dpus")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out"
        box = page.locator("#ranks").bounding_box()
        page.mouse.move(box["x"] + 4, box["y"] + 4)
        assert "rank 0 on node 0" in page.inner_text("#tip")
        page.mouse.move(0, 0)
        cells = rows.first.locator("td").all()
        edges = [cell.bounding_box() for cell in cells]
        assert all(edge["x"] >= 0 and edge["x"] + edge["width"] <= width for edge in edges), "each cell can be seen"
        if width == 400:
            shown = cells[7].evaluate("cell => getComputedStyle(cell, '::before').content")
            assert shown == '"exposed"', "a cell has its column's name"
        picture(page, f"watch-{scheme}-{width}")
        page.click("text=late")
        assert page.get_attribute("button[data-mode=late]", "aria-pressed") == "true"
        page.click("#theme")
        assert page.get_attribute("html", "data-theme") != scheme
        assert page.problems == []
        page.close()


@pytest.mark.slow
def test_it_says_that_there_is_no_job(browser):
    with running(watch.application(lambda: answer.Told(()), access(), 60.0)) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.wait_for_selector("#empty", timeout=10_000)
        assert "No running job publishes live data" in page.inner_text("#empty")
        page.close()


@pytest.mark.slow
def test_names_of_a_job_are_text_and_problems_are_shown(browser):
    steps = Steps(4, mpi="<img src=x onerror=alert(1)>")
    steps.problems = ("<b>node7</b> cannot be reached",)
    with running(watch.application(steps, access(), 0.2)) as port:
        page = opened(browser, port)
        assert "<img src=x" in page.inner_text("#about") and page.inner_text("#notes li").startswith("<b>")
        assert page.problems == []
        page.close()


@pytest.mark.slow
def test_thousands_of_ranks_stay_fluid(browser):
    with running(watch.application(Steps(RANKS), access(), 1.0)) as port:
        page = opened(browser, port)
        began = time.monotonic()
        frames = page.evaluate(
            """() => new Promise((resolve) => {
                 const times = [];
                 const step = (now) => {
                   times.push(now);
                   times.length < 240 ? requestAnimationFrame(step) : resolve(times);
                 };
                 requestAnimationFrame(step);
               })"""
        )
        updates = page.evaluate("performance.getEntriesByName('update').map((entry) => entry.duration)")
        nodes = page.evaluate("document.querySelectorAll('*').length")
        gaps = sorted(later - before for before, later in itertools.pairwise(frames))
        figures = {
            "seconds": round(time.monotonic() - began, 1), "update_ms": round(sorted(updates)[len(updates) // 2], 1),
            "longest_update_ms": round(max(updates), 1), "median_frame_ms": round(gaps[len(gaps) // 2], 1),
            "longest_frame_ms": round(gaps[-1], 1), "elements": nodes,
        }  # fmt: skip
        print(json.dumps(figures))
        picture(page, "watch-4096")
        page.close()
    assert nodes < 1000, "a cell of the map is no element"
    assert sorted(updates)[len(updates) // 2] < MOST_UPDATE_MS * float(os.environ.get("OUTRIGGER_PATIENCE", "1")), (
        figures
    )
