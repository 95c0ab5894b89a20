#!/usr/bin/python3
"""The live queue at 10,000 waiting jobs: what a request costs, what idling costs, how long others wait while
thousands of jobs come and go. Several builds are measured one after the other in one run. Loopback only.

    nice bench/queue/run.py [--build DIR]... [--jobs 10000] [--delete 8000] [-o json]

A node of declared GPUs is written as an object and nothing runs on it (--agent off): four holders stay
Starting, everything else waits. `others` is how long GET /healthz took on a connection of its own meanwhile; `cpu` is
the processor time of the daemon's loop, and `turn` the longest turn of it, in processor time too: both mean something on
a machine that does other things as well."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CARDS = json.dumps([{"index": i, "uuid": f"GPU-{i}", "mib": 24576, "declared": True} for i in range(4)])
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bench", "annotations": {"berth.dev/cards": CARDS}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
                   "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "20000", "nvidia.com/gpu": "4"},
                   "capacity": {"cpu": "64", "memory": "512Gi", "pods": "20000", "nvidia.com/gpu": "4"}}}
USERS = 50
BOUNDS = {"list_ms": 60, "user_ms": 5, "why_ms": 5, "idle_pct": 1, "delete_s": 1, "read_turn_ms": 20, "node_turn_ms": 20,
          "submit_turn_ms": 20, "delete_turn_ms": 20}


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(link, method, path, body=None):
    link.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = link.getresponse()
    data = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"bench/queue: {method} {path}: {answer.status} {data[:300]!r}")
    return data


def training(name, user):
    return {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": name, "labels": {"user": user}},
            "spec": {"image": "x", "command": ["true"], "maxEpochs": 10, "singleGPU": True}}


@contextlib.contextmanager
def berthd(build, folder):
    sock = f"{folder}/s"
    daemon = subprocess.Popen([build / "src/daemon/berthd", "--data", f"{folder}/data", "--http", "127.0.0.1:0", "--https",
                               "off", "--socket", sock, "--agent", "off", "--min-run", "1000"], stdout=subprocess.PIPE,
                              text=True, stderr=subprocess.DEVNULL)
    try:
        assert re.search(r"ready", daemon.stdout.readline())
        yield sock, daemon.pid
    finally:
        daemon.terminate()
        daemon.wait()


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loop_ms(pid):
    """Processor time of the main thread, which is the loop's."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e6


def turn_ms(link):
    """The longest turn since this was asked last; '-' of a build that does not tell."""
    micros = json.loads(ask(link, "GET", "/v1/status")).get("longestTurnMicros")
    return "-" if micros is None else round(micros / 1000, 1)


class Others:
    """Another client that asks all the time; the longest it had to wait."""

    def __init__(self, sock):
        self.sock, self.times, self.stop = sock, [], threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        link = Unix(self.sock)
        while not self.stop.is_set():
            begin = time.perf_counter()
            ask(link, "GET", "/healthz")
            self.times.append(time.perf_counter() - begin)
            time.sleep(0.002)

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def worst_ms(self):
        return round(max(self.times) * 1000, 1)


def timed(link, pid, what, path, count):
    times, loops = [], []
    for _ in range(count):
        begin, loop = time.perf_counter(), loop_ms(pid)
        ask(link, "GET", path)
        times.append((time.perf_counter() - begin) * 1000)
        loops.append(loop_ms(pid) - loop)
    return {f"{what}_ms": round(statistics.median(times), 2), f"{what}_cpu_ms": round(statistics.median(loops), 2)}


def label_node(link):
    """A change of a node is one of every job that waits."""
    link.request("PATCH", "/api/v1/nodes/bench", json.dumps({"metadata": {"labels": {"bench": "x"}}}),
                 {"Content-Type": "application/merge-patch+json"})
    answer = link.getresponse()
    assert answer.status == 200, answer.read()
    answer.read()


def submit(sock, jobs, threads=4):
    def some(first):
        link = Unix(sock)
        for i in range(first, jobs, threads):
            ask(link, "POST", "/apis/berth.dev/v1/namespaces/default/trainingjobs", training(f"j{i:05}", f"u{i % USERS}"))

    workers = [threading.Thread(target=some, args=(i,)) for i in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return jobs / (time.perf_counter() - begin)


def settle(pid, limit=60):
    """Until the daemon has nothing more to do."""
    for _ in range(limit):
        before = cpu_s(pid)
        time.sleep(1)
        if cpu_s(pid) - before < 0.05:
            return


def measure(build, jobs, delete):
    result = {"build": str(build)}
    with tempfile.TemporaryDirectory() as folder, berthd(build, folder) as (sock, pid):
        link = Unix(sock)
        ask(link, "POST", "/api/v1/nodes", NODE)
        ask(link, "PUT", "/api/v1/nodes/bench/status", {**json.loads(ask(link, "GET", "/api/v1/nodes/bench")),
                                                        "status": NODE["status"]})
        with Others(sock) as others:
            result["submits_per_s"] = round(submit(sock, jobs))
        result["submit_others_ms"] = others.worst_ms()
        result["submit_turn_ms"] = turn_ms(link)
        settle(pid)
        waiting = [row for row in json.loads(ask(link, "GET", "/v1/queue"))["jobs"] if row["state"] == "Pending"]
        assert len(waiting) >= jobs - 8, len(waiting)
        turn_ms(link)
        result |= timed(link, pid, "list", "/v1/queue", 7)
        result |= timed(link, pid, "user", "/v1/queue?user=u7", 15)
        result |= timed(link, pid, "why", f"/v1/queue/{waiting[len(waiting) // 2]['id']}/why", 15)
        result["read_turn_ms"] = turn_ms(link)
        settle(pid)
        turn_ms(link)
        label_node(link)
        settle(pid)
        result["node_turn_ms"] = turn_ms(link)
        before = cpu_s(pid)
        time.sleep(10)
        result["idle_pct"] = round((cpu_s(pid) - before) * 10, 2)
        for i in range(delete, jobs):  # the rest stays
            ask(link, "DELETE", f"/apis/berth.dev/v1/namespaces/default/trainingjobs/j{i:05}")
        settle(pid)
        turn_ms(link)
        loop = loop_ms(pid)
        with Others(sock) as others:
            begin = time.perf_counter()
            ask(link, "DELETE", "/apis/berth.dev/v1/namespaces/default/trainingjobs")
            result["delete_s"] = round(time.perf_counter() - begin, 2)
            while len(json.loads(ask(link, "GET", "/v1/queue"))["jobs"]) > 8:
                time.sleep(0.05)
            result["deleted_s"] = round(time.perf_counter() - begin, 2)
        result["delete_others_ms"] = others.worst_ms()
        result["delete_turn_ms"] = turn_ms(link)
        result["deleted_cpu_ms"] = round(loop_ms(pid) - loop)
        result["memory_mib"] = round(int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="append", type=pathlib.Path, help="build folder; the last one is held to the bounds")
    parser.add_argument("--jobs", type=int, default=10000)
    parser.add_argument("--delete", type=int, default=8000)
    parser.add_argument("-o", choices=["json"])
    args = parser.parse_args()
    builds = [b.resolve() for b in args.build or [ROOT / "build"]]
    results = [measure(build, args.jobs, args.delete) for build in builds]
    if args.o:
        print(json.dumps(results, indent=1))
        return 0
    for key in results[-1]:
        if key != "build":
            values = "".join(f"{str(r.get(key, '-')):>12}" for r in results)
            print(f"{key:18}{values}{'   bound ' + str(BOUNDS[key]) if key in BOUNDS else ''}")
    return int(any(results[-1][key] != "-" and results[-1][key] > bound for key, bound in BOUNDS.items()))


if __name__ == "__main__":
    sys.exit(main())
