"""One training job as its script sees it: where it stands, what it measured, whether it is to stop."""

from __future__ import annotations

import datetime
import os
import re
import sys
from typing import Any, Dict, Optional

from ._env import Env
from ._sender import sender

ASK_ALONE = 0.5  # seconds the only process waits for "stop?" at the start of an epoch
ASK_RANKS = 2.0  # with several, all must leave at the same step, so the answer is worth more time

_VERSION = re.compile(r"^version_(\d+)$")


def host_of(url: str) -> str:
    """host:port of an http address, or of plain host:port text."""
    return url.split("://", 1)[-1].split("/", 1)[0]


class Wire:
    """The calls. All fields are plain data; the queue behind them belongs to the process."""

    def __init__(self, env: Env, manager: Optional[str] = None, db: Optional[str] = None) -> None:
        own = host_of(env.url)
        self.manager = host_of(manager) if manager else own
        self.db = host_of(db) if db else (own or self.manager)
        self.job = env.job_id
        self.alone = env.processes == 1 and env.local_rank < 0
        self.rank = env.node_rank
        self.own, self.token = own, env.token

    def _ready(self) -> None:
        if self.own and self.token:
            sender.allow(self.own, self.token)

    def poll(self, epoch: int, told: Any, wait: Optional[float] = None) -> None:
        if not self.manager:
            return
        self._ready()
        if wait is None:
            wait = ASK_ALONE if self.alone else ASK_RANKS
        query = "?epoch=%d" % epoch if self.manager == self.own else ""
        sender.ask(self.manager, "/has_to_stop/%s%s" % (self.job, query), told, wait)

    def profile(self, body: Dict[str, Any]) -> None:
        if self.db:
            self._ready()
            sender.sample(self.db, "/profiling/" + self.job, body)

    def done(self, epochs: int) -> None:
        if self.manager:
            self._ready()
            sender.important(self.manager, "/end_epoch/" + self.job, {"done": epochs})

    def end(self) -> None:
        if self.manager:
            self._ready()
            sender.important(self.manager, "/signal_end/" + self.job, {})

    def log(self, record: Dict[str, Any]) -> None:
        if self.own:
            self._ready()
            sender.record(self.own, "/v1/train/%s/log" % self.job, self.rank, record)


def gpu_mib() -> int:
    """Most GPU memory this process had, as PyTorch tells; 0 where nobody has loaded it. Berth measures from
    outside as well."""
    torch = sys.modules.get("torch")
    try:
        cuda = torch.cuda  # type: ignore[union-attr]
        if cuda.is_available() and cuda.is_initialized():
            return int(cuda.max_memory_reserved() >> 20)
    except Exception:
        pass
    return 0


def now_text() -> str:
    return datetime.datetime.now().isoformat()


def newest_checkpoint(root: str) -> Optional[str]:
    """The newest file in checkpoints/ of the newest lightning_logs/version_N that has one."""
    logs = os.path.join(root, "lightning_logs")
    try:
        names = os.listdir(logs)
    except OSError:
        return None
    versions = sorted(((int(m.group(1)), m.group(0)) for m in map(_VERSION.match, names) if m), reverse=True)
    for _, name in versions:
        folder = os.path.join(logs, name, "checkpoints")
        try:
            files = [os.path.join(folder, it) for it in os.listdir(folder)]
            files = [it for it in files if not it.endswith((".part", ".tmp"))]
            if files:
                return max(files, key=lambda it: (os.path.getmtime(it), it))
        except OSError:
            continue
    return None
