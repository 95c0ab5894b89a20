#!/usr/bin/python3
"""Jobs started a second through POST /v1/jobs, each durable before its answer: berthd, and beside it a Flask +
Jinja2 + SQLite service that does the same work (flask_service.py, under gunicorn). Loopback only.

    nice bench/tasks/run.py [--build DIR] [--jobs 3000] [--clients 1,8,32] [-o json]

Berth's objects go on to be worked on meanwhile (Jobs get their pods, claims their volumes); the other service
only stores rows. Load comes from ab (apache2-utils), with keep-alive."""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data" / "tasks"


def curl(sock, method, path, body=None):
    out = subprocess.run(["curl", "-sS", "--unix-socket", sock, "-X", method, f"http://x{path}", "-d", json.dumps(body)],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def definition():
    doc = json.loads((DATA / "definition.json").read_text())
    return {**doc, "system_values": {"image": {"repository": "host", "command": ["true"]}}}


def values():
    doc = json.loads((DATA / "values.json").read_text())
    doc["endpoints"] = doc["endpoints"][:1]
    return doc


@contextlib.contextmanager
def berth(build, folder):
    sock = f"{folder}/s"
    daemon = subprocess.Popen([build / "src/daemon/berthd", "--data", f"{folder}/data", "--http", "127.0.0.1:0",
                               "--https", "off", "--socket", sock, "--agent", "off"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)
    try:
        url = re.search(r"http (\S+)", daemon.stdout.readline())[1]
        curl(sock, "PUT", "/v1/task-templates/bench", {"template": (DATA / "non-distributed-task.yaml.j2").read_text()})
        curl(sock, "POST", "/v1/task-definitions", {**definition(), "task_template_name": "bench"})
        token = curl(sock, "POST", "/v1/tokens", {})["token"]
        yield url, ["-H", f"Authorization: Bearer {token}"], daemon.pid
    finally:
        daemon.terminate()
        daemon.wait()


@contextlib.contextmanager
def flask(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = pathlib.Path(folder) / "definition.json"
    path.write_text(json.dumps(definition()))
    env = {**os.environ, "DEFINITION": str(path), "TEMPLATE": str(DATA / "non-distributed-task.yaml.j2"),
           "DATABASE": f"{folder}/db", "PYTHONPATH": str(ROOT / "bench/tasks")}
    server = subprocess.Popen([shutil.which("gunicorn", path="/usr/bin"), "-w", str(os.cpu_count()), "-k", "gthread",
                               "--threads", "8", "--keep-alive", "30", "-b", f"127.0.0.1:{port}", "flask_service:app"],
                              env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        time.sleep(1)
        yield f"http://127.0.0.1:{port}", [], server.pid
    finally:
        server.terminate()
        server.wait()


def cpu_sec(pid):
    """CPU time of a process and its children, as far as they are there."""
    total, ticks = 0, os.sysconf("SC_CLK_TCK")
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if pid in (int(stat.parent.name), int(fields[1])):
                total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def load(url, headers, jobs, clients, body):
    out = subprocess.run(["ab", "-k", "-q", "-n", str(jobs), "-c", str(clients), "-p", body, "-T", "application/json",
                          *headers, f"{url}/v1/jobs"], capture_output=True, text=True, check=True).stdout
    bad = re.search(r"Non-2xx responses:\s+(\d+)", out)
    if bad or not re.search(rf"Complete requests:\s+{jobs}\b", out):
        sys.exit(f"some were refused:\n{out}")
    rate = float(re.search(r"Requests per second:\s+([\d.]+)", out)[1])
    return {"rate": rate, **{f"p{p}": int(re.search(rf"^\s+{p}%\s+(\d+)", out, re.M)[1]) for p in (50, 99)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "check-gcc")
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="btasks-") as folder:
        body = f"{folder}/values.json"
        pathlib.Path(body).write_text(json.dumps(values()))
        for clients in map(int, args.clients.split(",")):
            row = {"clients": clients}
            for name, make in (("berth", lambda at: berth(args.build, at)), ("flask", flask)):
                at = tempfile.mkdtemp(prefix=f"{name}-", dir=folder)
                with make(at) as (url, headers, pid):
                    load(url, headers, 64, min(clients, 64), body)
                    before = cpu_sec(pid)
                    row[name] = load(url, headers, args.jobs, clients, body)
                    row[name]["cpu_ms"] = (cpu_sec(pid) - before) * 1000 / args.jobs
            rows.append(row)
    if args.output == "json":
        print(json.dumps(rows, indent=2))
        return
    print("| clients | | jobs/s | p50 ms | p99 ms | CPU ms/job |\n|---|---|---|---|---|---|")
    for row in rows:
        for name in ("berth", "flask"):
            one = row[name]
            print(f"| {row['clients']} | {name} | {one['rate']:.0f} | {one['p50']} | {one['p99']} | {one['cpu_ms']:.2f} |")


if __name__ == "__main__":
    main()
