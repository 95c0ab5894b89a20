#!/usr/bin/python3
"""Days of work in minutes: many jobs one after the other through one berthd, and what it holds on to meanwhile. Loopback only.

    nice bench/soak/run.py [--build DIR] [--jobs 100000] [--kind training|job|pod] [--at-once 64] [--flags="--kept-jobs 100"]
    nice bench/soak/run.py --real --jobs 10000      # as root: real containers (busybox's /bin/true of the host)

Without --real a node of declared GPUs is written as an object, and this program plays its kubelet: it ends each pod as soon as
it is bound. Everything else is real: the queue, records, events, the disk. A line is printed for each twentieth of the
jobs: resident memory, descriptors, threads, mounts and shims of this daemon, bytes of the database, of the logs and of the data
folder. It fails where memory, descriptors, threads or mounts at the end are more than --slack percent above what they were at a
quarter of the way: what grows with the work done, and not with the work there is, is a leak."""

import argparse
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CARDS = json.dumps([{"index": i, "uuid": f"GPU-{i}", "mib": 24576, "declared": True} for i in range(16)])
SIZE = {"cpu": "640", "memory": "5120Gi", "pods": "20000", "nvidia.com/gpu": "16"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "soak", "annotations": {"berth.dev/cards": CARDS}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": SIZE, "capacity": SIZE}}
USERS = 10
PLACES = {"training": "/apis/berth.dev/v1/namespaces/{}/trainingjobs", "job": "/apis/batch/v1/namespaces/{}/jobs",
          "pod": "/api/v1/namespaces/{}/pods"}
OVER = ("Succeeded", "Failed", "Cancelled")


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=600)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(link, method, path, body=None, kind="application/json", may=()):
    link.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
    answer = link.getresponse()
    data = answer.read()
    if answer.status in (429, 503):  # a busy machine; nothing was made
        time.sleep(1)
        return ask(link, method, path, body, kind, may)
    if answer.status >= 300 and answer.status not in may:
        raise SystemExit(f"bench/soak: {method} {path}: {answer.status} {data[:300]!r}")
    return data


def pod_spec(real):
    box = {"name": "c", "image": "host" if real else "x", "command": ["/bin/true"]}
    if not real:
        box["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    return {"restartPolicy": "Never", "containers": [box]}


def work(kind, name, real):
    meta = {"name": name}
    if kind == "training":
        spec = {"image": "host" if real else "x", "command": ["/bin/true"], "singleGPU": True}
        if real:
            spec["maxGPUs"] = 0
            del spec["singleGPU"]
        return {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": meta, "spec": spec}
    if kind == "job":
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
                "spec": {"backoffLimit": 0, "template": {"spec": pod_spec(real)}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(real)}


def watch(sock, path):
    """Events of a watch, one after the other; begun anew where it ends."""
    while True:
        try:
            link = Unix(sock)
            link.request("GET", path)
            answer = link.getresponse()
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    break
                yield event
        except (OSError, http.client.HTTPException):
            return


class Kubelet(threading.Thread):
    """Ends each pod as soon as it has a node; lets go of those that are deleted."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock = sock

    def run(self):
        link = Unix(self.sock)
        for event in watch(self.sock, "/api/v1/pods?watch=1"):
            pod = event["object"]
            meta, path = pod["metadata"], f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            if event["type"] == "DELETED" or not pod["spec"].get("nodeName"):
                continue
            if meta.get("deletionTimestamp"):
                ask(link, "DELETE", path, {"gracePeriodSeconds": 0}, may=(404, 409))
            elif pod["status"].get("phase", "Pending") == "Pending":
                ended = {"exitCode": 0, "reason": "Completed", "startedAt": meta["creationTimestamp"],
                         "finishedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
                box = {"name": pod["spec"]["containers"][0]["name"], "image": "x", "imageID": "x", "restartCount": 0, "ready": False,
                       "state": {"terminated": ended}}
                ask(link, "PATCH", f"{path}/status", {"status": {"phase": "Succeeded", "containerStatuses": [box]}},
                    "application/merge-patch+json", may=(404, 409))


class Ends(threading.Thread):
    """Counts the jobs that have ended, by the watch of their kind."""

    def __init__(self, sock, kind, slots):
        super().__init__(daemon=True)
        self.sock, self.kind, self.slots, self.seen, self.count = sock, kind, slots, set(), 0

    def over(self, thing):
        status = thing.get("status", {})
        if self.kind == "job":
            return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in status.get("conditions", []))
        return status.get("phase") in OVER

    def run(self):
        place = PLACES[self.kind].replace("/namespaces/{}", "")
        for event in watch(self.sock, f"{place}?watch=1"):
            thing = event["object"]
            uid = thing["metadata"]["uid"]
            if event["type"] == "DELETED":
                self.seen.discard(uid)
            elif uid not in self.seen and self.over(thing):
                self.seen.add(uid)
                self.count += 1
                self.slots.release()


def tree_bytes(path):
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return total


def suffix(data):
    """As daemon/agent.c names what belongs to a data folder."""
    value = 2166136261
    for byte in str(data).encode():
        value = (value ^ byte) * 16777619 & 0xffffffff
    return f"{value:08x}"


def figures(pid, data):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    mib = 1 << 20
    mine = [str(data), f"/run/berth-{suffix(data)}"]
    mounts = [text for text in safe_read(pathlib.Path(f"/proc/{pid}/mounts")).splitlines() if any(part in text for part in mine)]
    shims = sum("berth-shim" in text and any(part in text for part in mine) for text in map(safe_read, pathlib.Path("/proc").glob("[0-9]*/cmdline")))
    return {"rss_mib": round(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, 1),
            "fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),
            "mounts": len(mounts), "shims": shims,
            "db_mib": round(sum(p.stat().st_size for p in data.glob("berth.db*")) / mib, 1),
            "logs_mib": round(tree_bytes(data / "logs") / mib, 1), "data_mib": round(tree_bytes(data) / mib, 1)}


def safe_read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def line(done, seconds, row):
    return f"{done:>8} {seconds:>7.1f} s " + " ".join(f"{key} {value:<8}" for key, value in row.items())


def settle(pid, limit=120):
    """Until the daemon has nothing more to do."""
    def cpu():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    for _ in range(limit):
        before = cpu()
        time.sleep(1)
        if cpu() - before < 5:
            return


def soak(args, folder):
    sock, data = f"{folder}/s", pathlib.Path(f"{folder}/data")
    build = args.build.resolve()
    env = {**os.environ, "BERTH_SHIM": str(build / "src/shim/berth-shim"), "BERTH_IMAGE_HELPER": str(build / "src/image/berth-image")}
    daemon = subprocess.Popen([build / "src/daemon/berthd", "--data", data, "--http", "127.0.0.1:0", "--https", "off", "--socket", sock,
                               "--agent", "on" if args.real else "off", "--min-run", "0", *args.flags.split()], stdout=subprocess.PIPE,
                              text=True, stderr=open(f"{folder}/log", "w", encoding="utf-8"), env=env)
    try:
        assert "ready" in daemon.stdout.readline(), pathlib.Path(f"{folder}/log").read_text()
        return run(args, sock, data, daemon.pid)
    finally:
        daemon.terminate()
        daemon.wait()
        text = pathlib.Path(f"{folder}/log").read_text(encoding="utf-8")
        if args.log:
            pathlib.Path(args.log).write_text(text, encoding="utf-8")


def run(args, sock, data, pid):
    link = Unix(sock)
    if not args.real:
        ask(link, "POST", "/api/v1/nodes", NODE)
        ask(link, "PUT", "/api/v1/nodes/soak/status", {**json.loads(ask(link, "GET", "/api/v1/nodes/soak")), "status": NODE["status"]})
        Kubelet(sock).start()
    for i in range(USERS):
        ask(link, "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"lab{i}"}})
    slots = threading.Semaphore(args.at_once)
    ends = Ends(sock, args.kind, slots)
    ends.start()
    begin, rows, step = time.monotonic(), [], max(args.jobs // 20, 1)
    print(line(0, 0, figures(pid, data)), flush=True)
    for i in range(args.jobs):
        if not slots.acquire(timeout=120):
            raise SystemExit(f"bench/soak: nothing has ended for two minutes; {ends.count} of {i} have")
        ask(link, "POST", PLACES[args.kind].format(f"lab{i % USERS}"), work(args.kind, f"j{i:06}", args.real))
        if (i + 1) % step == 0:
            rows.append(figures(pid, data))
            print(line(i + 1, time.monotonic() - begin, rows[-1]), flush=True)
    for _ in range(args.at_once):
        slots.acquire(timeout=120)
    settle(pid)
    rows.append(figures(pid, data))
    print(line(ends.count, time.monotonic() - begin, rows[-1]), flush=True)
    history = json.loads(ask(link, "GET", "/v1/history?limit=1"))["jobs"]
    first = json.loads(ask(link, "GET", "/v1/queue/lab0/j000000"))
    print(f"the newest in the history: {history[0]['name']}; the first job still says: {first['state']}")
    print(f"{args.jobs / (time.monotonic() - begin):.0f} jobs per s")
    early, late, bad = rows[len(rows) // 4], rows[-1], []
    for key in ("rss_mib", "fds", "threads", "mounts"):
        if late[key] > early[key] * (1 + args.slack / 100) + (4 if key != "rss_mib" else 2):
            bad.append(f"{key} went from {early[key]} to {late[key]}")
    print("\n".join(bad) if bad else "flat")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=100000)
    parser.add_argument("--kind", choices=list(PLACES), default="training")
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--slack", type=float, default=10)
    parser.add_argument("--flags", default="", help="more flags for berthd")
    parser.add_argument("--log", help="where berthd's log goes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("SOAK_DIR")) as folder:
        os.chmod(folder, 0o755)
        return soak(args, folder)


if __name__ == "__main__":
    sys.exit(main())
