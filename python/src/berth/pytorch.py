"""Snapshots and processes for PyTorch. torch is imported when a function is called."""

from __future__ import annotations

import os
from typing import Any, Optional

from . import job

__all__ = ["device", "init_distributed", "load", "save"]


def _torch() -> Any:
    import torch

    return torch


def save(name: str = "snapshot.pt", **objects: Any) -> Optional[str]:
    """Saves the state of each object (model, optimizer, scheduler, numbers) as one file that appears whole or not
    at all. Only the first process writes; the others get None."""
    this = job()
    if not this.first or this.node_rank > 0:
        return None
    path = this.snapshot_path(name)
    state = {key: it.state_dict() if hasattr(it, "state_dict") else it for key, it in objects.items()}
    # the epoch under way ends with this snapshot
    state["berth_epochs"] = this.done + (1 if this._epoch_started is not None else 0)
    part = path + ".part"
    _torch().save(state, part)
    os.replace(part, path)
    return path


def load(name: str = "snapshot.pt", map_location: Any = "cpu", **objects: Any) -> Optional[dict]:
    """Puts what save() saved back into the objects; returns the whole state. None: there is no snapshot. The
    epochs done are those of the snapshot, should Berth have counted otherwise."""
    this = job()
    path = this.snapshot_path(name)
    if not os.path.exists(path):
        return None
    state = _torch().load(path, map_location=map_location)
    for key, it in objects.items():
        if key in state and hasattr(it, "load_state_dict"):
            it.load_state_dict(state[key])
    done = state.get("berth_epochs")
    if isinstance(done, int):
        this.done = min(done, this.max_epochs)
    return state


def device() -> Any:
    """The card of this process, or the CPU."""
    torch = _torch()
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", max(job().local_rank, 0) % torch.cuda.device_count())


def init_distributed(backend: Optional[str] = None) -> bool:
    """Joins the process group, where there is more than one process (torchrun sets RANK and WORLD_SIZE). Returns
    whether it did."""
    if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return False
    torch = _torch()
    torch.distributed.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    return True
