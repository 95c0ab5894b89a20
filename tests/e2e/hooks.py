"""A receiver of callbacks for tests: notes what comes, fails when told to, can be down for a while."""

import http.server
import json
import ssl
import threading


class Receiver:
    """Answers POSTs; `fail` says how many of the next ones get a 503 (or `bad_answer`: status, headers); `delay`
    holds answers up, `arrived` are the keys of what came to it. With `tls` (certificate, key) over HTTPS."""

    def __init__(self, tls=None):
        self.received, self.refused, self.fail, self.delay = [], [], 0, threading.Event()
        self.arrived, self.bad_answer, self.tls = [], (503, {}), tls
        self.delay.set()
        self.lock = threading.Lock()
        self.port = 0
        self.server = None
        self.open()

    def open(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.arrived.append(self.headers["Idempotency-Key"])
                outer.delay.wait(30)
                with outer.lock:
                    bad = outer.fail > 0
                    outer.fail -= bad
                    (outer.refused if bad else outer.received).append(
                        {"path": self.path, "headers": dict(self.headers), "body": json.loads(body)})
                try:
                    status, headers = outer.bad_answer if bad else (200, {})
                    self.send_response(status)
                    for header in headers.items():
                        self.send_header(*header)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    pass

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            allow_reuse_address = True
            daemon_threads = True

            def handle_error(self, *args):
                pass

            def finish_request(self, request, address):  # in a thread of its own: handshakes hold nobody up
                super().finish_request(context.wrap_socket(request, server_side=True) if context else request, address)

        context = None
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def of(self, task_id):
        """Messages about a task, in the order they came."""
        with self.lock:
            return [r for r in self.received if r["body"]["task_id"] == task_id]

    def states(self, task_id):
        return [r["body"]["status"] for r in self.of(task_id)]
