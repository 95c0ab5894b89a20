"""A stand-in for berthd that serves the page's files and made-up data in the form of docs/rest.md: for
measuring the page with thousands of jobs and for looking at it without a daemon.

    tests/e2e/page_mock.py [PORT [JOBS]]
"""
import datetime
import http.server
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import queue
import random
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = pathlib.Path("/usr/share/javascript/chart.js/chart.min.js")
USERS = ["ann", "bob", "chen", "dora", "emil", "fatima", "goran", "hana", "ivo", "jun", None]
NAMES = ["resnet50-imagenet", "vit-small", "unet-cells", "bert-finetune", "nerf-lego", "pointnet", "gan-faces",
         "speech-ctc", "detr-coco", "diffusion-64", "gnn-molecules", "lstm-weather"]
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
       "trusted-types 'none'")


def embedder():
    loader = importlib.machinery.SourceFileLoader("embed_page", str(ROOT / "tools" / "embed-page"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("embed_page", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def stamp(offset, now=None):
    moment = datetime.datetime.fromtimestamp((now or time.time()) + offset, datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Lab:
    """Made-up jobs on a made-up machine; the same for the same seed."""

    def __init__(self, count, cards=8, seed=7):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.listeners = set()
        self.revision = 1
        self.cards = cards
        self.jobs = {}
        for number in range(count):
            job = self.make(number)
            self.jobs[job["id"]] = job
        self.rank()

    def make(self, number):
        r = self.random
        running = number < self.cards + 2
        user = USERS[min(int(r.expovariate(0.28)), len(USERS) - 1)] if number else "ann"
        total = r.choice([10, 20, 50, 90, 300])
        done = r.randrange(1, total) if running else 0
        shared = running and number >= self.cards - 2
        mib = r.choice([6144, 8192, 12288]) if shared else 24576
        age = r.uniform(60, 90000) if running else r.uniform(60, 40000)
        eta = r.uniform(300, 40000)
        card = min(number, self.cards - 1) if number < self.cards - 1 else self.cards - 1
        kind = r.choice(["TrainingJob", "TrainingJob", "TrainingJob", "Job", "Pod"]) if number else "TrainingJob"
        known = kind == "TrainingJob"
        return {
            "id": f"{number:08x}-1111-4222-8333-444444444444", "kind": kind, "namespace": user or "default",
            "name": f"{r.choice(NAMES)}-{number}", "user": user, "state": "Running" if running else "Pending",
            "reason": "" if running else "All 8 GPUs are in use by jobs that come before it.",
            "position": None, "ordinal": 1.0, "globalOrdinal": 0.0, "priority": r.choice([0, 0, 0, 0, 2, -3]),
            "gpus": 1, "gpusMin": 1, "gpusMax": r.choice([1, 1, 4]) if known else 1,
            "memoryMiB": mib if shared else None, "shared": shared, "protection": "watched" if shared else None,
            "cards": [{"node": "lab1", "index": card, "mib": mib}] if running else [],
            "submitted": stamp(-age - r.uniform(20, 3000)), "started": stamp(-age) if running else None,
            "finished": None, "startEstimate": None if running else stamp(eta),
            "startLow": None if running else stamp(eta * 0.8), "startHigh": None if running else stamp(eta * 1.5),
            "epochsDone": done if known else None, "epochsTotal": total if known else None,
            "progress": done / total if known and running else None, "eta": stamp(eta) if running and known else None,
            "etaLow": stamp(eta * 0.85) if running and known else None,
            "etaHigh": stamp(eta * 1.3) if running and known else None, "restarts": 1 if number == 0 else 0,
            "lostSeconds": 40.0 if number == 0 else 0.0, "peakMemoryMiB": int(mib * 0.8) if running else None,
            "utilizationMem": round(r.uniform(0.3, 0.95), 2) if running else None,
            "utilizationCompute": round(r.uniform(0.2, 1), 2) if running else None,
            "image": "registry.lab/torch:2.1", "labels": {"user": user or ""}, "mine": user == "ann"}

    def rank(self):
        sums, place, total = {}, 0, 0.0
        for job in self.jobs.values():
            sums[job["user"]] = sums.get(job["user"], 0) + 1
            job["ordinal"] = float(sums[job["user"]])
        for job in sorted(self.jobs.values(), key=lambda j: (j["state"] != "Running", j["ordinal"], j["submitted"])):
            total += job["gpus"]
            job["globalOrdinal"] = total
            if job["state"] != "Running":
                place += 1
                job["position"] = place
            else:
                job["position"] = None

    def capacity(self):
        running = sum(j["state"] == "Running" for j in self.jobs.values())
        return {"gpus": self.cards, "gpusUsed": self.cards - 0.25, "memoryMiB": 262144, "memoryUsedMiB": 120000,
                "cpuMilli": 64000, "cpuMilliUsed": 38500, "waiting": len(self.jobs) - running, "running": running,
                "declared": True}

    def document(self):
        return {"revision": self.revision, "time": stamp(0), "policy": "fair", "preemption": "auto",
                "capacity": self.capacity(), "jobs": list(self.jobs.values())}

    def touch(self, ids, **members):
        """Changes jobs and tells everybody who listens; returns the revision."""
        with self.lock:
            self.revision += 1
            for i in ids:
                self.jobs[i] = {**self.jobs[i], **members}
            change = {"revision": self.revision, "time": stamp(0), "capacity": self.capacity(),
                      "upsert": [self.jobs[i] for i in ids], "remove": []}
            for listener in self.listeners:
                listener.put(change)
            return self.revision

    def detail(self, job):
        steps = range(0, 4000, 10)
        wave = lambda s: 2.2 * math.exp(-s / 900) + 0.25 + 0.05 * self.random.random()
        return {**job, "history": [
            {"time": stamp(-9000), "state": "Pending", "reason": "Waits for a GPU.", "by": None, "byName": None,
             "lostSeconds": 0, "gpus": 0, "cards": []},
            {"time": stamp(-8400), "state": "Running", "reason": "Started on 2 GPUs.", "by": None, "byName": None,
             "lostSeconds": 0, "gpus": 2, "cards": [{"node": "lab1", "index": 0, "mib": 24576}, {"node": "lab1", "index": 1, "mib": 24576}]},
            {"time": stamp(-5000), "state": "Preempted", "reason": "Preempted at the end of epoch 12 by", "lostSeconds": 40,
             "by": "00000003-1111-4222-8333-444444444444", "byName": "vit-small-3", "gpus": 0, "cards": []},
            {"time": stamp(-4700), "state": "Running", "reason": "Resumed from epoch 12 on 1 GPU.", "by": None, "byName": None,
             "lostSeconds": 0, "gpus": 1, "cards": [{"node": "lab1", "index": 0, "mib": 24576}]}],
            "secondsPerEpoch": {"1": 182.5, "2": 97.1, "4": 58.0},
            "epochs": [{"epoch": e, "seconds": (97 if e < 12 else 182) + self.random.uniform(-4, 4), "gpus": 2 if e < 12 else 1,
                        "time": stamp(-8000 + 100 * e)} for e in range(1, 30)],
            "metrics": {"loss": [[stamp(s - 4000), s, wave(s)] for s in steps],
                        "accuracy": [[stamp(s - 4000), s, 0.93 - 0.8 * math.exp(-s / 1200)] for s in steps],
                        "learning rate": [[stamp(s - 4000), s, 0.1 * 0.5 ** (s // 1000)] for s in steps]},
            "memory": [[stamp(-4700 + 20 * i), 15000 + 3500 * min(1, i / 40)] for i in range(230)],
            "manifest": {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": job["name"]},
                         "spec": {"image": job["image"], "scriptPath": "/custom/train.py", "maxEpochs": 90}},
            "pods": [{"name": job["name"] + "-2", "phase": "Running", "started": stamp(-4700), "finished": None}],
            "events": [{"time": stamp(-4700), "type": "Normal", "reason": "Started", "message": "Started container train"},
                       {"time": stamp(-4990), "type": "Warning", "reason": "Preempted", "message": "Made room for ann/vit-small-3"}],
            "command": f"run-scheduler --image_name {job['image']} --max_epochs 90 {job['name']}"}

    def nodes(self):
        cards = []
        for i in range(self.cards):
            on = [j for j in self.jobs.values() for c in j["cards"] if c["index"] == i]
            cards.append({"index": i, "uuid": f"GPU-{i}", "model": "NVIDIA RTX 3090", "memoryMiB": 24576,
                          "usedMiB": sum(j["memoryMiB"] or 24576 for j in on), "measuredMiB": 20000 if on and i != 3 else None,
                          "utilization": 0.83 if on and i != 3 else None, "declared": i == 3, "failed": False,
                          "jobs": [{"id": j["id"], "name": j["name"], "user": j["user"], "mib": j["memoryMiB"] or 24576,
                                    "whole": not j["shared"]} for j in on]})
        return {"nodes": [{"name": "lab1", "ready": True, "schedulable": True, "declared": True, "cpuMilli": 64000,
                           "cpuMilliUsed": 38500, "memoryMiB": 262144, "memoryMiBUsed": 120000, "cards": cards}]}

    def timeline(self, hours=6):
        r, spans = random.Random(3), []
        for card in range(self.cards):
            at = -hours * 3600.0
            while at < 0:
                length = r.uniform(1200, 9000)
                user = r.choice(USERS)
                number = r.randrange(len(self.jobs) or 1)
                spans.append({"node": "lab1", "index": card, "id": f"{number:08x}-1111-4222-8333-444444444444",
                              "name": f"{r.choice(NAMES)}-{number}", "user": user, "mib": 24576, "start": stamp(at),
                              "end": stamp(at + length) if at + length < 0 else None})
                at += length + r.uniform(0, 400)
        use = [{"node": "lab1", "index": i, "points": [[stamp(-hours * 3600 + 120 * k), 0.5 + 0.4 * math.sin(k / 17 + i), 0.6]
                                                       for k in range(hours * 30)]} for i in range(4)]
        return {"from": stamp(-hours * 3600), "to": stamp(0), "spans": spans, "utilization": use}

    def history(self):
        r = random.Random(5)
        return {"jobs": [{**self.make(1000 + n), "state": r.choice(["Succeeded", "Succeeded", "Failed", "Cancelled"]), "finished": stamp(-3600.0 * n),
                          "reason": "", "waitedSeconds": r.uniform(1, 9000), "ranSeconds": r.uniform(60, 90000), "gpuHours": r.uniform(0.1, 30)} for n in range(60)], "next": None}

    def usage(self):
        r = random.Random(5)
        return {"rows": [{"start": stamp(-604800.0 * w), "user": u, "gpuHours": r.uniform(1, 120), "jobs": r.randrange(1, 40),
                          "waitMedian": r.uniform(10, 3000), "waitP90": r.uniform(3000, 30000)} for w in range(4) for u in USERS[:6]]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lab = files = folder = None

    def log_message(self, *args):
        pass

    def answer(self, body, kind="application/json", code=200, **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self):
        listener = queue.Queue()
        with self.lab.lock:
            self.lab.listeners.add(listener)
            first = self.lab.document()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(f"event: queue\nid: {first['revision']}\ndata: {json.dumps(first)}\n\n".encode())
            while True:
                change = listener.get()
                if change is None:
                    break
                self.wfile.write(f"event: change\nid: {change['revision']}\ndata: {json.dumps(change)}\n\n".encode())
        except OSError:
            pass
        with self.lab.lock:
            self.lab.listeners.discard(listener)
        self.close_connection = True

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        lab = self.lab
        if path == "/":
            self.answer(self.files["index.html"], "text/html; charset=utf-8", Content_Security_Policy=CSP)
        elif path.startswith(f"/{self.folder}/"):
            name = path.rsplit("/", 1)[1]
            kind = embed.TYPES[pathlib.Path(name).suffix]
            self.answer(self.files[name], kind, Cache_Control="max-age=31536000, immutable")
        elif path == "/v1/page/session":
            self.answer({"user": "ann", "admin": False, "via": "session", "csrf": "x", "assets": self.folder})
        elif path == "/v1/queue/stream":
            self.stream()
        elif path == "/v1/queue":
            self.answer(lab.document())
        elif path == "/v1/inbox":
            self.answer({"items": [], "unseen": 0, "last": 0})
        elif path == "/v1/nodes":
            self.answer(lab.nodes())
        elif path == "/v1/nodes/timeline":
            self.answer(lab.timeline())
        elif path == "/v1/history":
            self.answer(lab.history())
        elif path == "/v1/usage":
            self.answer(lab.usage())
        elif path.endswith("/logs"):
            self.answer("".join(f"epoch {i // 40} step {i} loss {3 / (1 + i / 50):.4f}\n" for i in range(900)).encode(), "text/plain")
        elif path.endswith("/why"):
            self.answer({"reason": "All GPUs are in use by jobs that come before it.", "ahead": [], "frees": [], "position": 1})
        elif path.startswith("/v1/queue/"):
            job = lab.jobs.get(path.rsplit("/", 1)[1])
            self.answer(lab.detail(job) if job else {"error": "no such job", "code": 404}, code=200 if job else 404)
        elif path == "/v1/train/options":
            self.answer({"options": [{"name": n, "type": t, "help": h, "default": d, "guide": True} for n, t, h, d in (
                ("image_name", "text", "image to run", "host"), ("max_epochs", "int", "epochs in all", "1"),
                ("is_single_gpu", "bool", "never more than one GPU", "false"))]})
        else:
            self.answer({"error": f"nothing at {path}", "code": 404}, code=404)


embed = embedder()


def serve(port=0, count=40):
    """Starts it in a thread; returns (server, lab, URL)."""
    lab = Lab(count)
    files, folder = embed.page(ROOT / "web", CHART)
    handler = type("Bound", (Handler,), {"lab": lab, "files": files, "folder": folder})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, lab, f"http://127.0.0.1:{server.server_port}/"


if __name__ == "__main__":
    print(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0, int(sys.argv[2]) if len(sys.argv) > 2 else 40)[2], flush=True)
    threading.Event().wait()
