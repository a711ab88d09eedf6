"""Jobs for Prometheus: by its own parser, its own checks and a real server; and who is let in."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from waiting import wait_until

from outrigger.errors import UserError
from outrigger.live import answer, exporter, sources
from outrigger.live import web as server
from outrigger.live.metrics import MOST_COMMUNICATORS, OTHERS
from outrigger.live.simulated import SimulatedJob
from outrigger.live.snapshot import Communicator

MONITORING = Path(__file__).parents[2] / "packaging/monitoring"
TOKEN = "0123456789abcdef"
NODES = next(SimulatedJob(6, per_node=4, job="run-1", dpus=True).steps())
LOOPBACK = server.Address("127.0.0.1", 0)


@contextmanager
def running(app: web.Application) -> Iterator[int]:
    """Its port."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner.addresses[0][1]

    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def app_of(nodes=NODES, access: server.Access | None = None) -> web.Application:
    return exporter.application(lambda: answer.Told(tuple(nodes)), access or server.access_of(LOOPBACK, None))


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    text = answer.read().decode()
    link.close()
    return answer.status, text, dict(answer.headers)


def samples(families) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in families:
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def test_metrics_are_what_the_nodes_say():
    with running(app_of()) as port:
        _, text, headers = ask(port, "/metrics")
        _, modern, modern_headers = ask(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["Content-Type"].startswith("text/plain")
    assert modern_headers["Content-Type"].startswith("application/openmetrics-text")
    found = samples(parse_text(text))
    assert found == samples(parse_openmetrics(modern))
    assert found["outrigger_calls_total"] == 6 * 1250 and found["outrigger_job_ranks"] == 6
    assert found["outrigger_calls_native_total"] == 6 * 50 and found["outrigger_service_up"] == 2
    rows = [row for node in NODES for row in node.rows]
    assert found["outrigger_exposed_seconds_total"] == pytest.approx(sum(row.exposed_ns for row in rows) * 1e-9)
    assert found["outrigger_late_seconds_total"] == pytest.approx(sum(row.late_ns for row in rows) * 1e-9)
    assert found["outrigger_rank_seconds_total"] == pytest.approx(6.0)
    links = [link for node in NODES for link in node.links]
    assert found["outrigger_link_sent_bytes_total"] == sum(link.sent for link in links) > 0
    assert found["outrigger_link_received_bytes_total"] == found["outrigger_wire_received_bytes_total"]
    assert 'peer="node1"' in text
    assert f'communicator="{NODES[0].communicators[0].name}"' in text


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_mend():
    with running(app_of()) as port:
        text = ask(port, "/metrics")[1]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_thousands_of_communicators_are_few_series():
    many = tuple(Communicator(f"{n:032x}", f"c{n}", 2) for n in range(500))
    rows = tuple(msgspec.structs.replace(NODES[0].rows[0], communicator=n) for n in range(500))
    node = msgspec.structs.replace(NODES[0], communicators=many, rows=rows)
    with running(app_of([node])) as port:
        text = ask(port, "/metrics")[1]
    series = re.findall(r"^outrigger_calls_total\{.*", text, re.MULTILINE)
    assert len(series) == MOST_COMMUNICATORS + 1 and OTHERS in text


def test_another_node_reads_it():
    with running(app_of()) as port:
        assert sources.exporter(f"http://127.0.0.1:{port}", None)() == answer.Told(NODES)
    told = sources.exporter(f"http://127.0.0.1:{port}", None)()
    assert told.nodes == () and "cannot be reached" in told.problems[0]


def test_a_token_is_asked_for():
    with running(app_of(access=server.access_of(LOOPBACK, TOKEN))) as port:
        assert ask(port, "/metrics")[0] == 401
        assert ask(port, "/metrics", Authorization="Bearer wrong")[0] == 401
        assert ask(port, f"/metrics?token={TOKEN}")[0] == 401, "an address is written down in logs"
        assert ask(port, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert sources.exporter(f"http://127.0.0.1:{port}", TOKEN)().nodes == NODES
        assert "--token-file" in sources.exporter(f"http://127.0.0.1:{port}", None)().problems[0]


def test_beyond_loopback_only_with_a_token():
    with pytest.raises(UserError, match="a token is needed"):
        server.access_of(server.parse_address("0.0.0.0:9464"), None)
    assert server.access_of(server.parse_address("0.0.0.0:9464"), TOKEN).token == TOKEN
    assert server.parse_address("[::1]:80").loopback and not server.parse_address("node7:80").loopback
    for wrong in ("9464", "node7:", ":80", "a:99999"):
        with pytest.raises(UserError, match="HOST:PORT"):
            server.parse_address(wrong)
    with pytest.raises(UserError, match="16 characters"):
        sources.parse_token("short")


def test_only_by_its_name_and_only_to_read():
    with running(app_of()) as port:
        assert ask(port, "/metrics", Host=f"evil.example:{port}")[0] == 421
        assert ask(port, "/metrics", Host=f"localhost:{port}")[0] == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(port, "/metrics", method)[0] == 405
        status, _, headers = ask(port, "/nothing")
    assert status == 404 and "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_rules_and_configuration_are_right():
    for words in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        checked = subprocess.run(
            ["promtool", "check", *words], cwd=MONITORING, capture_output=True, text=True, timeout=60
        )
        assert checked.returncode == 0, checked.stderr


def test_dashboard_and_rules_name_metrics_that_there_are():
    with running(app_of()) as port:
        known = set(samples(parse_text(ask(port, "/metrics")[1])))
    for file in ("alerts.yml", "grafana-dashboard.json"):
        text = (MONITORING / file).read_text()
        assert set(re.findall(r"\boutrigger_\w+", text)) <= known
    panels = json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) and all(panel["targets"] for panel in panels)


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_a_real_prometheus_scrapes_and_warns(tmp_path):
    dead = msgspec.structs.replace(NODES[0].services[0], ran_ns=0)
    nodes = (msgspec.structs.replace(NODES[0], services=(dead,)), NODES[1])
    (tmp_path / "token").write_text(TOKEN)
    rules = (MONITORING / "alerts.yml").read_text().replace("for: 30s", "for: 0s")
    (tmp_path / "alerts.yml").write_text(rules)
    with running(app_of(nodes, server.access_of(LOOPBACK, TOKEN))) as port:
        text = (MONITORING / "prometheus.yml").read_text().replace("127.0.0.1:9464", f"127.0.0.1:{port}")
        text = text.replace("15s", "1s\n  evaluation_interval: 1s").replace("/etc/prometheus/outrigger.token", "token")
        text = text.replace("    # authorization:\n    #   cred", "    authorization:\n      cred")
        (tmp_path / "prometheus.yml").write_text(text)
        listen = free_port()
        process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{listen}",
             "--storage.tsdb.path=data"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:

            def until(path: str, found) -> None:
                def answers() -> bool:
                    try:
                        status, said, _ = ask(listen, path)
                    except OSError:
                        return False
                    return status == 200 and found(json.loads(said)["data"])

                assert wait_until(answers, pause_s=0.5), path

            query = quote('sum(outrigger_calls_total{job="run-1"})')
            until(f"/api/v1/query?query={query}", lambda data: [r["value"][1] for r in data["result"]] == ["7500"])
            until("/api/v1/alerts", lambda data: [a["labels"]["alertname"] for a in data["alerts"] if
                                                  a["state"] == "firing"] == ["OutriggerServiceDead"])  # fmt: skip
        finally:
            process.terminate()
            process.communicate(timeout=60)
