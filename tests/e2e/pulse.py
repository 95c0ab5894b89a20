"""Whether the daemon answers while something else goes on."""

import contextlib
import threading
import time

import harness


class Pulse:
    """Asks /healthz again and again over one connection until it is left."""

    def __init__(self, server):
        self.server, self.times, self.over = server, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with contextlib.closing(self.server.connect("http", timeout=60)) as link:
            while not self.over.is_set():
                start = time.monotonic()
                link.request("GET", "/healthz")
                assert link.getresponse().read() == b"ok"
                self.times.append(time.monotonic() - start)
                self.over.wait(0.002)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        if not kind:
            harness.wait(lambda: len(self.times) > 100, "the daemon answers")
        self.over.set()
        self.thread.join()

    def check(self, p99=0.05):
        """One of a hundred may be the machine's doing, a hang is not."""
        times = sorted(self.times)
        found = f"of {len(times)}: p99 {times[int(len(times) * 0.99)] * 1000:.1f} ms, longest {times[-1] * 1000:.1f} ms"
        print(found)
        assert times[int(len(times) * 0.99)] < p99 * harness.PATIENCE, found
        assert times[-1] < 0.5 * harness.PATIENCE, found
