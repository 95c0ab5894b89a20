"""What a training script says to Berth, and hears from it.

    import berth

    for epoch in berth.epochs():                # goes on where the last run ended
        for batch in berth.steps(loader):       # measures each step
            ...
            berth.log(loss=loss)
        torch.save(model.state_dict(), berth.snapshot_path("model.pt"))

When the GPUs are needed elsewhere, the loop over epochs ends the script after the epoch's body (the snapshot is
saved by then), with status 0, and Berth starts it again later. TERM does the same; where Berth has not asked for
it, the status is 143, so that nobody takes it for the end of the training. Outside Berth everything works with
harmless defaults, and nothing is sent. The daemon being away never stops or slows training.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from typing import Any, Dict, Iterable, Iterator, Optional, TypeVar

from ._env import Env, make_folder, warn
from ._job import Wire, gpu_mib, newest_checkpoint, now_text
from ._sender import sender

__version__ = "0.1.0"
__all__ = ["Job", "end", "epoch", "epochs", "flush", "job", "log", "restarted", "should_stop", "snapshot_dir",
           "snapshot_path", "step", "steps"]

T = TypeVar("T")
_clock = time.perf_counter
TERMED = 128 + signal.SIGTERM  # the status of a script that was told to end, and not by Berth


class Job:
    """This process' job. Values are those given at submit; `done` counts epochs over all runs."""

    def __init__(self, env: Optional[Env] = None) -> None:
        env = env or Env()
        self.inside: bool = env.inside
        self.id: str = env.job_id
        self.batch_size: int = env.batch_size
        self.training_set_size: int = env.training_set_size
        self.max_epochs: int = env.epochs
        self.done: int = env.epochs_done
        self.gpus: int = env.num_gpus
        self.nodes: int = env.num_nodes
        self.node_rank: int = env.node_rank
        self.local_rank: int = env.local_rank
        self.restarted: bool = env.restarted
        self.reserved_mib: int = env.reserved_mib
        self.steps_per_epoch: int = env.steps_per_epoch
        self.first: bool = env.first
        self.heartbeat: int = env.heartbeat
        self._node_list: str = env.node_list
        self._wire = Wire(env)
        self._root: str = env.snapshots()
        self._made: bool = False
        self.step_count: int = 0  # of this run
        self.first_step: int = env.steps_done  # of the runs before it
        self.mean_step: float = 0.0  # seconds
        self._last: Optional[float] = None
        self._next: int = self.heartbeat
        self._epoch_started: Optional[float] = None
        self._asked: bool = False  # Berth wants the GPUs
        self._heard: Optional[int] = None  # the first epoch of which it said so
        self._termed: bool = False
        self._forks = threading.local()

    # ---- snapshots ----

    @property
    def snapshot_dir(self) -> str:
        """A folder that is still there in the next run; made with its parents."""
        if not self._made:
            self._root = make_folder(self._root)
            self._made = True
        return self._root

    def snapshot_path(self, name: str) -> str:
        path = os.path.join(self.snapshot_dir, name)
        make_folder(os.path.dirname(path))
        return path

    def newest_checkpoint(self) -> Optional[str]:
        """Lightning's newest checkpoint below snapshot_dir."""
        return newest_checkpoint(self.snapshot_dir)

    # ---- stopping ----

    def should_stop(self) -> bool:
        """Whether to leave now, between epochs, after the snapshot. Nothing is to be left when all epochs are
        done. While the last epoch runs, only TERM counts."""
        if self.done >= self.max_epochs:
            return False
        if self._epoch_started is not None and self.done >= self.max_epochs - 1:
            return self._termed
        return self._asked or self._termed

    def _told(self, epoch: int, text: str) -> None:
        """Comes from the background thread. The processes of one job must leave together, and an answer may be late
        for some of them: there it counts at the end of the next epoch, when all have it."""
        if text == "1":
            self._heard = epoch if self._heard is None else min(self._heard, epoch)
            if self._wire.alone:
                self._asked = True

    def watch_term(self) -> bool:
        """TERM asks to stop at the epoch's end. False: not possible here (not the main thread), or the script
        has a handler of its own."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return False
        signal.signal(signal.SIGTERM, self._on_term)
        os.register_at_fork(before=self._hold_term, after_in_parent=self._take_term, after_in_child=self._forget_term)
        return True

    # Children (loaders, pools) are ended by TERM as ever: they have no epochs. One that comes while a child has the
    # handler still would be lost, so it waits.

    def _hold_term(self) -> None:
        self._forks.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _take_term(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forks.mask)

    def _forget_term(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._on_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._take_term()

    def _on_term(self, number: int, frame: Any) -> None:
        self._termed = True

    # ---- epochs and steps ----

    def start_epoch(self) -> None:
        self._epoch_started = time.time()
        self._last = None  # what lies between epochs is no step

    def end_epoch(self) -> None:
        """The epoch is over: tells Berth, and asks whether to go on. All processes of a job get the same answer."""
        started = self._epoch_started
        self._epoch_started = None
        self.done += 1
        if self.first:
            body = self._row()
            body["epochDur"] = time.time() - started if started is not None else 0.0
            self._wire.profile(body)
            self._wire.done(self.done)
        if self._heard is not None and self._heard < self.done:
            self._asked = True
        if self.done < self.max_epochs:
            self._wire.poll(self.done, functools.partial(self._told, self.done))

    def measure(self) -> None:
        """A step is over."""
        now = _clock()
        last = self._last
        self._last = now
        if last is not None:
            n = self.step_count = self.step_count + 1
            self.mean_step += (now - last - self.mean_step) / n
            if n >= self._next:
                self._next = n + self.heartbeat
                if self.first:
                    self._wire.profile(self._row())

    def _row(self) -> Dict[str, Any]:
        return {"jobid": self.id, "timestamp": now_text(), "iternum": self.step_count, "nodelist": self._node_list,
                "numgpu": self.gpus, "rank": self.node_rank, "meandur": self.mean_step, "gpumem": gpu_mib()}

    @contextlib.contextmanager
    def epoch(self) -> Iterator[int]:
        """``with job.epoch() as n``: an epoch that counts when its body ends without an exception."""
        self.start_epoch()
        try:
            yield self.done
        except BaseException:
            self._epoch_started = None
            raise
        self.end_epoch()

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """``with job.step()``: one training step."""
        if self._last is None:
            self._last = _clock()
        yield
        self.measure()

    def epochs(self, exit: bool = True) -> Iterator[int]:
        """The numbers of the epochs still to be done. After a body that is asked to be the last one, the script
        ends with status 0 (143 where TERM came without Berth's asking); with exit=False only the loop does."""
        self.watch_term()
        while self.done < self.max_epochs:
            self.start_epoch()
            yield self.done
            self.end_epoch()
            if self.should_stop():
                warn("stopping after %d of %d epochs, to go on later" % (self.done, self.max_epochs))
                if exit:
                    raise SystemExit(0 if self._heard is not None else TERMED)
                return

    def steps(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches, each measured as a step when the next one is asked for."""
        if self._last is None:
            self._last = _clock()
        for batch in batches:
            yield batch
            self.measure()

    # ---- metrics ----

    def log(self, **values: Any) -> None:
        """Numbers to be shown with the job: log(loss=0.3). Tensors are read in the background."""
        record = {
            "time": time.time(),
            "step": self.first_step + self.step_count,
            "epoch": self.done,
            "values": {key: value.detach().clone() if hasattr(value, "detach") else value
                       for key, value in values.items()},
        }
        self._wire.log(record)

    def end(self) -> None:
        """The training is over before its last epoch. Nobody has to call this."""
        if self.first:
            self._wire.end()


_job: Optional[Job] = None


def job() -> Job:
    """The job of this process."""
    global _job
    if _job is None:
        _job = Job()
    return _job


def epochs(exit: bool = True) -> Iterator[int]:
    """See Job.epochs."""
    return job().epochs(exit)


def steps(batches: Iterable[T]) -> Iterator[T]:
    """See Job.steps."""
    return job().steps(batches)


def epoch() -> Any:
    """``with berth.epoch() as number:``; see Job.epoch."""
    return job().epoch()


def step() -> Any:
    """``with berth.step():``; see Job.step."""
    return job().step()


def should_stop() -> bool:
    """Whether to leave now, between epochs; see Job.should_stop. From the first call on, TERM counts, too."""
    this = job()
    this.watch_term()
    return this.should_stop()


def log(**values: Any) -> None:
    """berth.log(loss=0.3, accuracy=0.9)"""
    job().log(**values)


def snapshot_dir() -> str:
    """A folder that is still there in the next run."""
    return job().snapshot_dir


def snapshot_path(name: str) -> str:
    """A path in snapshot_dir."""
    return job().snapshot_path(name)


def restarted() -> bool:
    """Whether this run goes on from a snapshot."""
    return job().restarted


def end() -> None:
    """The training is over before its last epoch (early stopping)."""
    job().end()


def flush(seconds: float = 2.0) -> bool:
    """Waits until all that was told has left; False: it has not, in that time."""
    return sender.flush(seconds)
