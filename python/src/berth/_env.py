"""What Berth tells a job by its environment, with harmless defaults for runs outside Berth."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from typing import Mapping, Optional

_FALSE = ("", "FALSE", "0", "NO", "OFF")


def warn(text: str) -> None:
    """One line on stderr; never raises."""
    try:
        print("berth: " + text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def whole(env: Mapping[str, str], name: str, default: int, least: int) -> int:
    """The variable as a number; what is none counts as not set, with a warning."""
    text = env.get(name, "").strip()
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        warn("%s is '%s', not a whole number: taken as %d" % (name, text, default))
        return default
    return max(number, least)


class Env:
    """The environment, read once. Every value is plain data, so that it can be copied and pickled."""

    def __init__(self, env: Optional[Mapping[str, str]] = None) -> None:
        env = os.environ if env is None else env
        self.inside: bool = bool(env.get("JOB_UUID"))
        self.job_id: str = env.get("JOB_UUID") or "local"
        self.heartbeat: int = whole(env, "HEARTBEAT_FREQ", 50, 1)
        self.node_rank: int = whole(env, "NODE_RANK", 0, 0)
        self.node_list: str = env.get("NODELIST") or socket.gethostname()
        self.num_gpus: int = whole(env, "NUM_GPUS", 1, 0)
        self.num_nodes: int = whole(env, "NUM_NODES", 1, 1)
        self.restarted: bool = env.get("JOB_RESTARTED", "").strip().upper() not in _FALSE
        self.batch_size: int = whole(env, "BATCH_SIZE", 1, 1)
        self.epochs: int = whole(env, "EPOCHS_TO_BE_DONE", 1, 1)
        self.epochs_done: int = whole(env, "EPOCHS_DONE", 0, 0)
        self.steps_done: int = whole(env, "BERTH_STEPS_DONE", 0, 0)
        self.training_set_size: int = whole(env, "TRAINING_SET_SIZE", 1, 1)
        self.local_rank: int = whole(env, "LOCAL_RANK", -1, -1)
        self.rank: int = whole(env, "RANK", self.node_rank, 0)
        self.reserved_mib: int = whole(env, "RESERVED_MEM", 0, 0)
        self.url: str = (env.get("BERTH_URL") or "").rstrip("/")
        self.token: str = env.get("BERTH_TOKEN") or ""
        self._snapshots: str = env.get("BERTH_SNAPSHOTS") or ""

    @property
    def first(self) -> bool:
        """Whether this process speaks for its node: the only one, or local rank 0."""
        return self.local_rank <= 0

    @property
    def processes(self) -> int:
        return max(1, self.num_gpus) * self.num_nodes

    @property
    def steps_per_epoch(self) -> int:
        return self.training_set_size // (self.batch_size * self.processes)

    def snapshots(self) -> str:
        """The folder of this job's snapshots: /snapshots/JOB in a container, ./snapshots/JOB elsewhere."""
        if self._snapshots:
            base = self._snapshots
        elif self.inside or os.path.isdir("/snapshots"):
            base = "/snapshots"
        else:
            base = os.path.join(os.getcwd(), "snapshots")
        return os.path.join(base, self.job_id)


def make_folder(path: str) -> str:
    """Makes the folder with its parents. Where that is not allowed, one in the temporary folder instead."""
    try:
        os.makedirs(path, exist_ok=True)
        return path
    except OSError as error:
        base = os.path.join(tempfile.gettempdir(), "berth-snapshots-%d" % os.getuid())
        other = os.path.join(base, os.path.basename(path))
        try:
            os.makedirs(other, mode=0o700, exist_ok=True)
            ours = os.lstat(base).st_uid == os.getuid() and not os.path.islink(base)
        except OSError:
            ours = False
        if not ours:  # somebody else's: what is loaded from there would run as us
            other = tempfile.mkdtemp(prefix="berth-snapshots-")
        warn("cannot make %s (%s): snapshots go to %s" % (path, error.strerror or error, other))
        return other
