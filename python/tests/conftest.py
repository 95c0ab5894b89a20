"""A small server that answers as the scheduler does, and a fresh library for every test."""

import http.server
import json
import os
import sys
import threading

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))

JOB_VARS = ("JOB_UUID HEARTBEAT_FREQ NODE_RANK NODELIST NUM_GPUS NUM_NODES JOB_RESTARTED BATCH_SIZE "
            "EPOCHS_TO_BE_DONE EPOCHS_DONE TRAINING_SET_SIZE LOCAL_RANK RANK RESERVED_MEM BERTH_URL BERTH_TOKEN "
            "BERTH_SNAPSHOTS").split()


class Scheduler:
    """Notes every call; `stop` is what has_to_stop answers."""

    def __init__(self):
        self.calls, self.stop, self.status = [], "0", 200
        self.changed = threading.Condition()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *rest):
                pass

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                with outer.changed:
                    outer.calls.append((self.command, self.path, json.loads(body) if body else None,
                                        self.headers.get("Authorization")))
                    outer.changed.notify_all()
                text = (outer.stop if self.path.startswith("/has_to_stop/") else "{}").encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def of(self, prefix):
        with self.changed:
            return [it for it in self.calls if it[1].startswith(prefix)]

    def wait(self, prefix, count=1, seconds=10):
        with self.changed:
            found = self.changed.wait_for(
                lambda: len([it for it in self.calls if it[1].startswith(prefix)]) >= count, seconds)
        assert found, "%s came %d times: %s" % (prefix, len(self.of(prefix)), self.calls)
        return self.of(prefix)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in JOB_VARS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    import berth
    from berth._sender import sender

    sender._reset()
    monkeypatch.setattr(berth, "_job", None)
    yield
    sender._reset()


@pytest.fixture
def scheduler():
    server = Scheduler()
    yield server
    server.close()


@pytest.fixture
def inside(monkeypatch, tmp_path, scheduler):
    """The environment of a job of that scheduler; returns a function that changes it."""
    values = {"JOB_UUID": "job-1", "HEARTBEAT_FREQ": "5", "NODE_RANK": "0", "NODELIST": "lab1", "NUM_GPUS": "1",
              "NUM_NODES": "1", "JOB_RESTARTED": "FALSE", "BATCH_SIZE": "10", "EPOCHS_TO_BE_DONE": "3",
              "EPOCHS_DONE": "0", "TRAINING_SET_SIZE": "100", "BERTH_URL": "http://" + scheduler.host,
              "BERTH_TOKEN": "secret", "BERTH_SNAPSHOTS": str(tmp_path / "shots")}

    def put(**more):
        for name, value in dict(values, **more).items():
            monkeypatch.setenv(name, value)

    put()
    return put
