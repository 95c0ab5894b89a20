"""Talks to berthd from one background thread, so that training never waits for it.

What is to be sent goes into a bounded queue; when it is full, the oldest samples go first and what counts
(ends of epochs) stays. A daemon that is away is tried again with growing pauses. Nothing here raises into
the caller, and nothing but `ask` and `flush` waits, both for a bounded time.
"""

from __future__ import annotations

import atexit
import collections
import datetime
import http.client
import json
import os
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

SAMPLES_MAX = 1024  # queued samples; the oldest are dropped
RECORDS_MAX = 4096  # queued metric records
BATCH_MAX = 500  # metric records of one request
TIMEOUT = 2.0  # seconds for one request
PAUSE_FIRST, PAUSE_MAX = 0.2, 15.0  # seconds between attempts while the daemon is away
FLUSH_MAX = 2.0  # seconds that the end of the process waits for the queue
RECORD_PAUSE = 0.5  # seconds over which metric records are gathered

class Question:
    """A request whose answer somebody waits for."""

    def __init__(self, host: str, path: str, told: Callable[[str], None]) -> None:
        self.host, self.path, self.told = host, path, told
        self.ready = threading.Event()
        self.text: Optional[str] = None


class Sender:
    """One per process. Threads and connections are made at first use, and anew after a fork."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._generation = getattr(self, "_generation", 0) + 1  # a thread of an older one ends
        self._wake = threading.Condition(threading.Lock())
        self._important: Dict[Tuple[str, str], Dict[str, Any]] = {}  # newest of each address
        self._samples: Deque[Tuple[str, str, Dict[str, Any]]] = collections.deque(maxlen=SAMPLES_MAX)
        self._records: Deque[Dict[str, Any]] = collections.deque(maxlen=RECORDS_MAX)
        self._records_to: Optional[Tuple[str, str, int]] = None
        self._questions: List[Question] = []
        self._conns: Dict[str, http.client.HTTPConnection] = {}
        self._tokens: Dict[str, str] = {}
        self._thread: Optional[threading.Thread] = None
        self._busy = False
        self._hurry = False  # somebody waits in flush
        self.away = False  # the last attempt failed
        self.dropped = 0

    # ---- called by training ----

    def allow(self, host: str, token: str) -> None:
        """The token that is shown to that host, and to no other."""
        self._tokens[host] = token

    def sample(self, host: str, path: str, body: Dict[str, Any]) -> None:
        """A request that may be lost."""
        if len(self._samples) == SAMPLES_MAX:
            self.dropped += 1
        self._samples.append((host, path, body))
        self._start()

    def important(self, host: str, path: str, body: Dict[str, Any]) -> None:
        """A request that is tried until it succeeds; a newer one to the same address replaces it."""
        with self._wake:
            self._important.pop((host, path), None)
            self._important[(host, path)] = body
        self._start()

    def record(self, host: str, path: str, rank: int, record: Dict[str, Any]) -> None:
        """A metric record; many go into one request. Values may be tensors: they are read in the thread."""
        self._records_to = (host, path, rank)
        self._records.append(record)
        if len(self._records) == 1 or self._thread is None:
            self._start()

    def ask(self, host: str, path: str, told: Callable[[str], None], wait: float) -> None:
        """GET; told(text) comes from the thread when there is an answer. Waits for it at most so long, and not
        at all while the daemon is away."""
        question = Question(host, path, told)
        with self._wake:
            # An older question to the same address is of no interest any more.
            self._questions = [it for it in self._questions if (it.host, it.path) != (host, path)]
            self._questions.append(question)
        self._start()
        if wait > 0 and not self.away:
            if not question.ready.wait(wait):
                self.away = True

    def flush(self, seconds: float = FLUSH_MAX) -> bool:
        """Waits until all has left, or the time is up, or the daemon is away. True: all has left."""
        end = time.monotonic() + seconds
        with self._wake:
            self._hurry = True
            self._wake.notify_all()
            while self._pending() and self._thread is not None and self._thread.is_alive():
                left = end - time.monotonic()
                if left <= 0 or self.away:
                    break
                self._wake.wait(min(left, 0.05))
            self._hurry = False
            return not self._pending()

    # ---- the thread ----

    def _start(self) -> None:
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="berth", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is ending, or there are too many threads
                    self._thread = None
                    return
            self._wake.notify_all()

    def _pending(self) -> bool:
        return bool(self._busy or self._important or self._samples or self._records or self._questions)

    def _other_work(self) -> bool:
        return bool(self._hurry or self._important or self._questions or self._samples
                    or len(self._records) >= BATCH_MAX)

    def _run(self) -> None:
        pause = PAUSE_FIRST
        mine, wake = self._generation, self._wake
        while True:
            with wake:
                if mine != self._generation:
                    return
                self._busy = False
                wake.notify_all()
                while not self._pending():
                    wake.wait()
                self._busy = True
            try:
                sent = self._step()
            except Exception:  # whatever it is, training goes on
                sent = False
            if mine != self._generation:
                return
            self.away = not sent
            if sent:
                pause = PAUSE_FIRST
                continue
            self._close()
            for question in self._questions:
                question.ready.set()
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX)

    def _step(self) -> bool:
        """One request. False: the daemon could not be reached; what was to be sent is kept. Ends of epochs go
        before questions: the answer is for the epoch that begins."""
        with self._wake:
            key = next(iter(self._important), None)
            body = self._important.get(key) if key else None
            question = self._questions[0] if self._questions else None
        if self._samples:  # they were made before the end of their epoch
            host, path, sample = self._samples[0]
            if self._request("POST", host, path, sample) is None:
                return False
            try:
                if self._samples[0][2] is sample:
                    self._samples.popleft()
            except IndexError:
                pass
            return True
        if key and body is not None:
            if self._request("POST", key[0], key[1], body) is None:
                return False
            with self._wake:
                if self._important.get(key) is body:
                    del self._important[key]
            return True
        if question:
            return self._answer(question)
        return self._send_records()

    def _answer(self, question: Question) -> bool:
        text = self._request("GET", question.host, question.path, None)
        if text is None:
            return False
        question.text = text
        question.told(text)
        question.ready.set()
        with self._wake:
            if question in self._questions:
                self._questions.remove(question)
        return True

    def _send_records(self) -> bool:
        if not self._records or not self._records_to:
            self._records.clear()
            return True
        with self._wake:  # more may come; nothing else waits for that
            self._wake.wait_for(self._other_work, RECORD_PAUSE)
            if self._important or self._questions or self._samples:
                return True
        batch = []
        while self._records and len(batch) < BATCH_MAX:
            record = self._records.popleft()
            values = {key: number(value) for key, value in record["values"].items()}
            record["values"] = {key: value for key, value in values.items() if value is not None}
            record["time"] = utc_text(record["time"])
            if record["values"]:
                batch.append(record)
        if not batch:
            return True
        host, path, rank = self._records_to
        if self._request("POST", host, path, {"rank": rank, "records": batch}) is None:
            if len(self._records) + len(batch) <= RECORDS_MAX:
                self._records.extendleft(reversed(batch))
            return False
        return True

    def _request(self, method: str, host: str, path: str, body: Optional[Dict[str, Any]]) -> Optional[str]:
        """The answer's text; None: not reached, or the server has trouble of its own (5xx). An answer of another
        kind that is no success reads as ""."""
        data = None if body is None else json.dumps(body, default=str).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if self._tokens.get(host):
            headers["Authorization"] = "Bearer " + self._tokens[host]
        for _ in (1, 2):  # a connection that idled may have been closed by the other side
            conn = self._conns.get(host)
            fresh = conn is None
            if conn is None:
                conn = self._conns[host] = http.client.HTTPConnection(host, timeout=TIMEOUT)
            try:
                conn.request(method, path, body=data, headers=headers)
                answer = conn.getresponse()
                text = answer.read().decode("utf-8", "replace")
                if answer.status >= 500:
                    return None
                return text if answer.status < 300 else ""
            except (OSError, http.client.HTTPException, ValueError):
                conn.close()
                self._conns.pop(host, None)
                if fresh:
                    return None
        return None

    def _close(self) -> None:
        for conn in self._conns.values():
            conn.close()
        self._conns.clear()


def utc_text(when: Any) -> Any:
    """Seconds since 1970 as RFC 3339; text stays."""
    if isinstance(when, str):
        return when
    return datetime.datetime.fromtimestamp(when, datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def number(value: Any) -> Optional[float]:
    """A metric as a number; None where it is none, or not finite (JSON has no such numbers)."""
    try:
        result = float(value)
    except Exception:
        return None
    return result if result - result == 0 else None


sender = Sender()


def _at_exit() -> None:
    sender.flush()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=sender._reset)
