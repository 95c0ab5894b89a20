"""A callback for PyTorch Lightning. Lightning is imported when callback() is called.

    trainer = pl.Trainer(callbacks=[berth.lightning.callback()], default_root_dir=berth.snapshot_dir(),
                         max_epochs=berth.job().max_epochs)
    trainer.fit(model, loader, ckpt_path=berth.job().newest_checkpoint())
"""

from __future__ import annotations

from typing import Any

from . import job

__all__ = ["callback"]


def _base() -> Any:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback
    return Callback


def callback(metrics: bool = True) -> Any:
    """Tells Berth of steps, epochs and logged metrics; stops the trainer between epochs when asked to."""

    class BerthCallback(_base()):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, module: Any) -> None:
            job().watch_term()

        def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
            this = job()
            this.done = max(this.done, trainer.current_epoch)
            this.start_epoch()

        def on_train_batch_end(self, trainer: Any, module: Any, *rest: Any) -> None:
            job().measure()

        def on_train_epoch_end(self, trainer: Any, module: Any, *rest: Any) -> None:
            this = job()
            if metrics and this.first:
                this.log(**{str(key): value for key, value in trainer.callback_metrics.items()})
            this.end_epoch()
            if this.should_stop():
                trainer.should_stop = True

    return BerthCallback()
