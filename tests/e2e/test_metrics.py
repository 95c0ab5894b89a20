"""/metrics: what Prometheus makes of it, that it stays small whatever is asked, and that docs, alerts and dashboard speak of what is there.

promtool and prometheus are those that tools/get-prometheus finds or fetches; without them the tests that need them say so."""

import functools
import json
import pathlib
import re
import socket
import subprocess
import urllib.request

import pytest
import yaml

import harness

FAMILY = re.compile(r"^# TYPE (\S+) (\S+)$", re.M)
NAMES = re.compile(r"\b(?:berth|process)_[a-z0-9_]+")
PARTS = re.compile(r"_(?:bucket|sum|count)$")
DOCS = harness.ROOT / "docs" / "monitoring.md"
ALERTS = harness.ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = harness.ROOT / "deploy" / "grafana" / "berth.json"


@functools.lru_cache(maxsize=None)
def programs():
    return harness.run([harness.ROOT / "tools" / "get-prometheus"], timeout=120)


def program(name):
    found = programs()
    if found.code:
        pytest.skip(found.err.strip())
    return pathlib.Path(found.out.strip()) / name


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with harness.Daemon(tmp_path_factory.mktemp("metrics"), "--agent", "off", "--gpus", "2x8192") as daemon:
        daemon.post("/v1/users", {"name": "ann"})
        daemon.post("/api/v1/namespaces/ann/pods", {"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "busybox:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}})
        yield daemon


def scrape(daemon, **more):
    answer = daemon.request("GET", "/metrics", **more)
    assert answer.code == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.body.decode()


def value(text, sample):
    """Of one series, written as it is in the text."""
    found = re.search("^" + re.escape(sample) + r" (\S+)$", text, re.M)
    return float(found[1]) if found else None


def test_promtool_finds_no_fault(lab):
    check = harness.run([program("promtool"), "check", "metrics"], stdin=scrape(lab))
    assert check.code == 0, check.err


def test_promtool_takes_the_alerts():
    assert "rules found" in harness.run([program("promtool"), "check", "rules", ALERTS]).ok()


def test_every_family_is_described_and_every_description_is_of_one(lab):
    table = DOCS.read_text().split("## What there is")[1].split("## Checks")[0]
    described = set(NAMES.findall("\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))
    with_users = {"berth_user_jobs", "berth_user_gpus"}
    assert {name for name, _ in FAMILY.findall(scrape(lab))} == described - with_users


def test_every_check_is_described(lab):
    described = set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text().split("## Checks")[1], re.M))
    assert {c["name"] for c in lab.get("/v1/status")["checks"]} == described
    assert {c for c in re.findall(r'berth_check\{check="(\w+)"\}', scrape(lab))} == described


def test_alerts_and_dashboard_use_what_there_is(lab):
    there = {name for name, _ in FAMILY.findall(scrape(lab))}
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    board = json.loads(DASHBOARD.read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(rules) > 5 and len(shown) > 20
    for expr in rules + shown:
        for name in NAMES.findall(expr):
            assert PARTS.sub("", name) in there or name in there, expr
    places = [tuple(p["gridPos"][k] for k in "xywh") for p in board["panels"]]
    for i, (x, y, w, h) in enumerate(places):
        assert x + w <= 24 and not any(x < x2 + w2 and x2 < x + w and y < y2 + h2 and y2 < y + h for x2, y2, w2, h2 in places[:i])


def test_requests_count_for_routes_not_for_paths(lab):
    before = scrape(lab)
    for i in range(50):
        assert lab.request("GET", f"/nowhere/{i}").code == 404
        assert lab.request("GET", f"/v1/queue/default/job-{i}").code == 404
        assert lab.request("GET", f"/api/v1/namespaces/ns{i}/pods/p{i}").code == 404
        assert lab.request("SPLASH", f"/v1/queue/{i}").code in (404, 405)
    after = scrape(lab)
    for sample in ('berth_http_requests_total{route="unknown",method="GET",code="404"}',
                   'berth_http_requests_total{route="/v1/queue/**",method="GET",code="404"}',
                   'berth_http_requests_total{route="/api/v1/pods/*",method="GET",code="404"}'):
        assert value(after, sample) - (value(before, sample) or 0) == 50, sample
    series = [line for line in after.splitlines() if line.startswith("berth_http_requests_total")]
    assert len(series) < 60 and not any("job-" in line or "SPLASH" in line for line in series)


def test_what_is_no_request_counts_as_refused(lab):
    before = value(scrape(lab), 'berth_http_requests_total{route="refused",method="other",code="400"}') or 0
    host, _, port = lab.http.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 10) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        answer = link.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 400") and re.search(r"^X-Request-Id: \w+-\w+\r$", answer, re.M)
    assert value(scrape(lab), 'berth_http_requests_total{route="refused",method="other",code="400"}') == before + 1


def test_the_queue_is_told(lab):
    text = scrape(lab)
    assert value(text, 'berth_queue_jobs{state="pending"}') == 1 and value(text, "berth_queue_waiting_gpus") == 1
    assert value(text, "berth_store_commit_seconds_count") == value(text, "berth_store_commits_total") > 0
    assert value(text, "berth_loop_turn_seconds_count") > 0
    assert value(text, 'berth_store_objects{kind="pods"}') == 1
    assert 1e6 < value(text, "process_resident_memory_bytes") == pytest.approx(lab.get("/v1/status")["residentBytes"], rel=0.5)


def test_names_of_users_are_told_where_that_is_set(lab, tmp_path):
    assert "ann" not in scrape(lab)
    with harness.Daemon(tmp_path, "--agent", "off", "--metrics-users", "true") as daemon:
        daemon.post("/v1/users", {"name": "ann"})
        token = daemon.post("/v1/tokens", {"user": "ann"})["token"]
        answer = daemon.request("POST", "/api/v1/namespaces/ann/pods", {"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "busybox:1"}]}}, via="http", token=token)
        assert answer.code == 201
        harness.wait(lambda: value(scrape(daemon), 'berth_user_jobs{user="ann",state="waiting"}') == 1, "ann's pod")


def test_who_may_not_see_the_queue_may_not_read_it(lab, tmp_path):
    assert "berth_build_info" in scrape(lab, via="http")  # this machine
    with harness.Daemon(tmp_path, "--agent", "off", "--anonymous", "none") as daemon:
        assert daemon.request("GET", "/metrics", via="http").code == 401
        token = daemon.post("/v1/tokens", {"user": "prometheus", "groups": ["berth:viewers"]})["token"]
        assert "berth_build_info" in scrape(daemon, via="http", token=token)


def test_a_real_prometheus_scrapes_it(tmp_path):
    """As docs/monitoring.md has it: HTTPS, a viewer's token, Berth's authority, the alerts."""
    server = program("prometheus")
    with harness.Daemon(tmp_path / "d", "--agent", "off", "--anonymous", "none", "--gpus", "1x8192") as daemon:
        (tmp_path / "token").write_text(daemon.post("/v1/tokens", {"user": "prometheus", "groups": ["berth:viewers"]})["token"])
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(ALERTS)],
                  "scrape_configs": [{"job_name": "berth", "scheme": "https", "static_configs": [
                      {"targets": [daemon.https.removeprefix("https://")]}],
                      "authorization": {"credentials_file": str(tmp_path / "token")}, "tls_config": {"ca_file": str(daemon.ca)}}]}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        assert "is valid" in harness.run([program("promtool"), "check", "config", tmp_path / "prometheus.yml"]).ok()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % probe.getsockname()[1]
        with open(tmp_path / "log", "wb") as log, subprocess.Popen(
                [server, f"--config.file={tmp_path}/prometheus.yml", f"--web.listen-address={address}",
                 f"--storage.tsdb.path={tmp_path}/tsdb"], stdout=log, stderr=log) as running:
            try:
                def query(expr):
                    try:
                        with urllib.request.urlopen(f"http://{address}/api/v1/query?query={expr}", timeout=10) as answer:
                            return json.load(answer)["data"]["result"]
                    except OSError:
                        assert running.poll() is None, (tmp_path / "log").read_text()
                        return []
                up = harness.wait(lambda: query("up"), "the first scrape", timeout=40)
                assert up[0]["value"][1] == "1", (tmp_path / "log").read_text()[-3000:]
                assert query("berth_build_info")[0]["metric"]["version"] == daemon.get("/v1/status")["version"]
                with urllib.request.urlopen(f"http://{address}/api/v1/rules", timeout=10) as answer:
                    groups = json.load(answer)["data"]["groups"]
                assert all(rule["health"] in ("ok", "unknown") for group in groups for rule in group["rules"]) and groups
            finally:
                running.terminate()
