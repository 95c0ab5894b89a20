"""KubeProfiler: what a training script tells the scheduler and is told by it.

Call ``start_epoch()`` when an epoch begins, ``measure()`` after each step, ``end_epoch()`` when the epoch is
over. When the scheduler wants the GPUs, the script ends at the first ``measure()`` of an epoch, with status 0,
and is started again later with ``RESTARTED`` true.

Outside Berth everything works with harmless defaults and nothing is sent. The daemon being away never stops or
slows training.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any, Dict, Optional

from berth._env import Env, make_folder, warn
from berth._job import Wire, gpu_mib, newest_checkpoint, now_text

__all__ = ["KubeProfiler"]

_clock = time.perf_counter


class KubeProfiler:
    """Reads the job's environment; its attributes are the values given to run-scheduler."""

    def __init__(self, job_manager_hostname: Optional[str] = None, db_hostname: Optional[str] = None) -> None:
        env = Env()
        self.JOBID: str = env.job_id
        self.PROFILE_EACH: int = env.heartbeat
        self.RANK: int = env.node_rank
        self.NODE_LIST: str = env.node_list
        self.NUM_GPUS: int = env.num_gpus
        self.NUM_NODES: int = env.num_nodes
        self.RESTARTED: bool = env.restarted
        self.BATCH_SIZE: int = env.batch_size
        self.EPOCHS: int = env.epochs
        self.EPOCHS_DONE: int = env.epochs_done
        self.TRAINING_SET_SIZE: int = env.training_set_size
        self.LOCAL_RANK: int = env.local_rank

        self.iterationPerEpoch: int = env.steps_per_epoch
        self.maxIterations: int = self.iterationPerEpoch * self.EPOCHS
        self.epoch: int = self.EPOCHS_DONE
        self.iterations: int = 0
        self.mean_iteration_duration: float = 0.0
        self.last_time: Optional[float] = None
        self.start_epoch_time: Optional[float] = None
        self.end_epoch_time: Optional[float] = None
        self.has_to_stop: bool = False
        self._heard: Optional[int] = None  # the first epoch at which the scheduler wanted the GPUs

        self._wire = Wire(env, job_manager_hostname, db_hostname)
        self.jmHostname: str = self._wire.manager
        self.dbHostname: str = self._wire.db
        self._first: bool = env.first
        self._gpu_mib: int = 0
        self._next_profile: int = self.PROFILE_EACH

        self.root_dir: str = make_folder(env.snapshots())
        self.ckpt_path: Optional[str] = None
        if self.RESTARTED:
            self.ckpt_path = newest_checkpoint(self.root_dir) or os.path.join(self.root_dir, "tf_ckpt")

    # ---- what scripts call ----

    def measure(self) -> None:
        """At the end of each training step."""
        now = _clock()
        last = self.last_time
        self.last_time = now
        if last is not None:
            n = self.iterations = self.iterations + 1
            self.mean_iteration_duration += (now - last - self.mean_iteration_duration) / n
            if n >= self._next_profile:
                self._profile()
        if self.has_to_stop:
            self._leave()

    def start_epoch(self) -> None:
        """At the start of each epoch: asks whether this job has to make room."""
        self.start_epoch_time = time.time()
        if self.epoch >= self.EPOCHS - 1:  # the last epoch is always finished
            return
        if self._heard is not None and self._heard < self.epoch:
            self.has_to_stop = True
        self._wire.poll(self.epoch, functools.partial(self._told, self.epoch))

    def end_epoch(self) -> None:
        """At the end of each epoch, with validation."""
        self.end_epoch_time = now = time.time()
        started = self.start_epoch_time
        self.epoch += 1
        self._gpu_mib = gpu_mib()
        if not self._first:
            return
        body = self._row()
        body["epochDur"] = now - started if started is not None else 0.0
        self._wire.profile(body)
        self._wire.done(self.epoch)

    def end(self) -> None:
        """The training is over. Nobody has to call this."""
        if self._first:
            self._wire.end()

    # ---- inside ----

    def _row(self) -> Dict[str, Any]:
        return {
            "jobid": self.JOBID,
            "timestamp": now_text(),
            "iternum": self.iterations,
            "nodelist": self.NODE_LIST,
            "numgpu": self.NUM_GPUS,
            "rank": self.RANK,
            "meandur": self.mean_iteration_duration,
            "gpumem": self._gpu_mib,
        }

    def _profile(self) -> None:
        self._next_profile = self.iterations + self.PROFILE_EACH
        if self._first:
            self._wire.profile(self._row())

    def _told(self, epoch: int, text: str) -> None:
        """Comes from the background thread. The answer may be late: the last epoch is finished all the same. The
        processes of one job must leave together: there it counts from the next epoch on, when all have it."""
        if text != "1":
            return
        self._heard = epoch if self._heard is None else min(self._heard, epoch)
        if self._wire.alone and self.epoch < self.EPOCHS - 1:
            self.has_to_stop = True

    def _leave(self) -> None:
        if self.epoch >= self.EPOCHS - 1:
            self.has_to_stop = False
            return
        warn("the scheduler needs the GPUs: stopping after %d of %d epochs, to go on later"
             % (self.epoch, self.EPOCHS))
        raise SystemExit(0)
