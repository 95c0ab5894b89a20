#!/usr/bin/env python3
"""The Kubernetes API's speed and size: berthd, and a real kube-apiserver + etcd beside it where
tools/get-kubectl has built one. Loopback only; everything it starts it ends.

    bench/api/run.py [--build DIR] [--pods 5000] [--peer auto|no]

Prints one table with ratios; -o json for the figures alone. The limit of the disk (write 4 KiB +
fdatasync) is measured in the same run, on the same file system.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def disk_limit(folder, seconds=2.0):
    """(commits per second, p50 ms) of 4 KiB + fdatasync."""
    path = pathlib.Path(folder) / "fsync"
    fd, times, data = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), [], b"x" * 4096
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        os.write(fd, data)
        os.fdatasync(fd)
        times.append(time.perf_counter() - start)
    os.close(fd)
    path.unlink()
    return len(times) / sum(times), statistics.median(times) * 1e3


def usage(pids):
    """(cpu seconds, resident MB) of processes together."""
    cpu = memory = 0
    for pid in pids:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        memory += int(open(f"/proc/{pid}/status").read().split("VmRSS:")[1].split()[0]) / 1024
    return cpu, memory


class Server:
    """Where to send, and whose processes to count."""

    def __init__(self, name, url, token, pids, plain, kubeconfig):
        self.name, self.url, self.token, self.pids, self.plain, self.kubeconfig = name, url, token, pids, plain, kubeconfig

    def connect(self):
        at = urllib.parse.urlsplit(self.url)
        if at.scheme == "http":
            return http.client.HTTPConnection(at.hostname, at.port)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(at.hostname, at.port, context=context)

    def ask(self, connection, method, path, body=None, accept="application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept, "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def make_namespace(server, name):
    with contextlib.closing(server.connect()) as c:
        server.ask(c, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for _ in range(100):
            status, _body = server.ask(c, "GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")
            if status == 200:
                return
            server.ask(c, "POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})


def pod(name):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "bench"}}, "spec": {
        "schedulerName": "none", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False, "containers": [{
            "name": "c", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sleep", "3600"],
            "env": [{"name": "RANK", "value": "0"}], "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}}


def create_python(server, ns, count, connections):
    """Creates over keep-alive connections with the same Python client for every server."""
    times, lock = [], threading.Lock()

    def work(number):
        with contextlib.closing(server.connect()) as c:
            for i in range(number, count, connections):
                start = time.perf_counter()
                status, body = server.ask(c, "POST", f"/api/v1/namespaces/{ns}/pods", pod(f"c{connections}-{i}"))
                assert status == 201, body
                with lock:
                    times.append(time.perf_counter() - start)

    cpu = usage(server.pids)[0]
    start = time.perf_counter()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.perf_counter() - start
    return {"per_sec": count / took, "p50_ms": percentile(times, 50) * 1e3, "p99_ms": percentile(times, 99) * 1e3,
            "cpu_ms": (usage(server.pids)[0] - cpu) * 1e3 / count}


def create_c(server, program, ns, count, connections, depth):
    at = urllib.parse.urlsplit(server.plain)
    cpu = usage(server.pids)[0]
    out = subprocess.run([program, at.hostname, str(at.port), server.token, f"/api/v1/namespaces/{ns}/pods", str(count),
                          str(connections), str(depth)], capture_output=True, text=True, check=True).stdout
    return {**json.loads(out), "cpu_ms": (usage(server.pids)[0] - cpu) * 1e3 / count}


def lists(server, ns, times=15):
    result = {}
    with contextlib.closing(server.connect()) as c:
        for name, query, accept in (("json", "", "application/json"), ("table", "", TABLE),
                                    ("table page of 500", "?limit=500", TABLE)):
            took = []
            for _ in range(times):
                start = time.perf_counter()
                status, _body = server.ask(c, "GET", f"/api/v1/namespaces/{ns}/pods{query}", accept=accept)
                took.append(time.perf_counter() - start)
                assert status == 200
            result[name] = percentile(took, 50) * 1e3
    return result


def watch(server, ns, count=300):
    """ms from sending a create to its event, and to its answer."""
    seen, sent, answered = {}, {}, {}
    ready, done = threading.Event(), threading.Event()
    with contextlib.closing(server.connect()) as c:
        status, body = server.ask(c, "GET", f"/api/v1/namespaces/{ns}/configmaps?limit=1")
        version = json.loads(body)["metadata"]["resourceVersion"]

    def follow():
        with contextlib.closing(server.connect()) as w:
            w.request("GET", f"/api/v1/namespaces/{ns}/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=600",
                      headers={"Authorization": f"Bearer {server.token}"})
            answer = w.getresponse()
            ready.set()
            while len(seen) < count:
                event = json.loads(answer.readline())
                seen[event["object"]["metadata"]["name"]] = time.perf_counter()
            done.set()

    threading.Thread(target=follow, daemon=True).start()
    ready.wait(10)
    with contextlib.closing(server.connect()) as c:
        for i in range(count):
            sent[f"w{i}"] = time.perf_counter()
            server.ask(c, "POST", f"/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": f"w{i}"}})
            answered[f"w{i}"] = time.perf_counter()
            time.sleep(0.002)
    done.wait(20)
    event = [(seen[n] - sent[n]) * 1e3 for n in seen]
    return {"event_p50_ms": percentile(event, 50), "event_p99_ms": percentile(event, 99),
            "after_answer_p50_ms": percentile([(seen[n] - answered[n]) * 1e3 for n in seen], 50)}


def kubectl_times(server, folder):
    kubectl = shutil.which("kubectl")
    if not kubectl or not server.kubeconfig:
        return {}
    env = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(folder)}
    path, result = pathlib.Path(folder) / "pod.json", {}
    took = []
    for i in range(8):
        path.write_text(json.dumps(pod(f"k{i}")))
        start = time.perf_counter()
        subprocess.run([kubectl, "apply", "--validate=true", "-n", "bench-kubectl", "-f", str(path)], env=env, check=True,
                       capture_output=True)
        took.append(time.perf_counter() - start)
    result["apply_ms"] = percentile(took, 50) * 1e3
    return result


def measure(server, load, pods, folder):
    figures = {"idle_rss_mb": usage(server.pids)[1]}
    for ns in ("bench1", "bench4", "bench8", "bench-watch", "bench-kubectl", "bench-c"):
        make_namespace(server, ns)
    figures["create, 1 connection"] = create_python(server, "bench1", min(pods, 2000), 1)
    figures["create, 4 connections"] = create_python(server, "bench4", pods, 4)
    figures["rss_mb with pods"] = usage(server.pids)[1]
    figures["list"] = lists(server, "bench4")
    figures["watch"] = watch(server, "bench-watch")
    figures["kubectl"] = kubectl_times(server, folder)
    if server.plain and load:
        figures["C client, 1 connection"] = create_c(server, load, "bench-c", 3000, 1, 1)
        figures["C client, 1 connection, pipelined"] = create_c(server, load, "bench-c", 5000, 1, 32)
        figures["C client, 4 connections"] = create_c(server, load, "bench-c", 8000, 4, 1)
        figures["C client, 8 connections"] = create_c(server, load, "bench-c", 8000, 8, 1)
        figures["C client, 32 connections"] = create_c(server, load, "bench-c", 16000, 32, 1)
    return figures


@contextlib.contextmanager
def berthd(build, folder):
    data = pathlib.Path(folder) / "berth"
    process = subprocess.Popen([build / "src/daemon/berthd", "--data", data, "--http", "127.0.0.1:0", "--https",
                                "127.0.0.1:0", "--socket", data / "s"], stdout=subprocess.PIPE, text=True)
    try:
        words = process.stdout.readline().split()
        plain, tls = words[words.index("http") + 1], words[words.index("https") + 1]
        out = subprocess.run(["curl", "-s", "--unix-socket", data / "s", "http://x/v1/tokens", "-d", "{}"], capture_output=True,
                             check=True).stdout
        time.sleep(1)  # let start-up work settle before memory is read
        yield Server("berthd", tls, json.loads(out)["token"], [process.pid], plain, data / "admin.kubeconfig")
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def kubernetes(folder):
    """tools/kube-oracle's control plane; None where it cannot be had."""
    oracle = ROOT / "tools" / "kube-oracle"
    at = pathlib.Path(folder) / "kube"
    started = subprocess.run([oracle, "start", at], capture_output=True, text=True, check=False) if oracle.exists() else None
    if not started or started.returncode != 0:
        yield None
        return
    try:
        facts = dict(line.split("=", 1) for line in (at / "env").read_text().split() if "=" in line)
        pids = [int(p.read_text()) for p in at.glob("*.pid")]
        yield Server("kube-apiserver", facts["URL"], facts["TOKEN"], pids, None, facts.get("KUBECONFIG"))
    finally:
        subprocess.run([oracle, "stop", at], check=False, capture_output=True)


def flatten(figures, prefix=""):
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}: ")
        else:
            yield prefix + key, value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--peer", choices=("auto", "no"), default="auto")
    parser.add_argument("--folder", default=None, help="where data goes (default: a temporary folder in /var/tmp)")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder or "/var/tmp", prefix="berth-bench-") as folder:
        load = pathlib.Path(folder) / "load"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", load, ROOT / "bench/api/load.c"], check=True)
        rate, fsync_ms = disk_limit(folder)
        result = {"disk": {"fdatasync_per_sec": rate, "fdatasync_p50_ms": fsync_ms}}
        with berthd(args.build.resolve(), folder) as server:
            result["berthd"] = measure(server, load, args.pods, folder)
        if args.peer == "auto":
            with kubernetes(folder) as server:
                if server:
                    result["kube-apiserver"] = measure(server, None, args.pods, folder)
                else:
                    print("kube-apiserver: not measured (tools/kube-oracle could not start one)", file=sys.stderr)
        rate2, fsync2 = disk_limit(folder)
        result["disk after"] = {"fdatasync_per_sec": rate2, "fdatasync_p50_ms": fsync2}
    if args.output == "json":
        print(json.dumps(result, indent=1))
        return
    print(f"disk: {rate:.0f} fdatasync/s, p50 {fsync_ms:.2f} ms before; {rate2:.0f}/s, {fsync2:.2f} ms after")
    peer = dict(flatten(result.get("kube-apiserver", {})))
    for key, value in flatten(result["berthd"]):
        other = peer.get(key)
        print(f"{key:45} {value:10.2f}" + (f" {other:12.2f}   x{other / value if value else 0:.1f}" if other is not None else ""))


if __name__ == "__main__":
    main()
