#!/usr/bin/python3
"""What the library's calls cost a training loop: time of measure(), by itself, with samples that are sent, and
with a daemon that is away. Needs no Berth; prints one line a case."""

import http.server
import os
import socket
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python", "src"))
COUNT = 500_000


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *rest):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


def micros(call):
    best = 1e9
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(COUNT):
            call()
        best = min(best, time.perf_counter() - begun)
    return best / COUNT * 1e6


def main():
    from kubernetesdlprofile.kubeprofiler import KubeProfiler

    os.environ.update(JOB_UUID="bench", BERTH_SNAPSHOTS=tempfile.mkdtemp(), HEARTBEAT_FREQ="50",
                      EPOCHS_TO_BE_DONE="10")
    begun = time.perf_counter()
    for _ in range(COUNT):
        (lambda: None)()
    empty = (time.perf_counter() - begun) / COUNT * 1e6
    print("an empty call                             %.2f us" % empty)
    print("measure(), nothing to send to             %.2f us" % micros(KubeProfiler().measure))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["BERTH_URL"] = "http://127.0.0.1:%d" % free.getsockname()[1]
    print("measure(), daemon away                    %.2f us" % micros(KubeProfiler().measure))
    prof = KubeProfiler(job_manager_hostname="127.0.0.1:%d" % server.server_address[1])
    prof._wire.db = prof._wire.manager
    begun, steps = time.perf_counter(), 2000
    spent = 0.0
    for _ in range(steps):  # steps of a millisecond
        time.sleep(0.001)
        at = time.perf_counter()
        prof.measure()
        spent += time.perf_counter() - at
    print("measure(), steps of 1 ms, samples sent    %.2f us" % (spent / steps * 1e6))


if __name__ == "__main__":
    main()
