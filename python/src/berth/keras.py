"""A callback for Keras. Keras (or TensorFlow's) is imported when callback() is called.

    path = berth.snapshot_path("weights.h5")
    if berth.restarted():
        model.load_weights(path)
    model.fit(x, y, epochs=berth.job().max_epochs, initial_epoch=berth.job().done,
              callbacks=[berth.keras.callback(weights=path)])
"""

from __future__ import annotations

import os
from typing import Any, Optional

from . import job

__all__ = ["callback"]


def _base() -> Any:
    try:
        from tensorflow.keras.callbacks import Callback
    except ImportError:
        from keras.callbacks import Callback
    return Callback


def callback(weights: Optional[str] = None, metrics: bool = True) -> Any:
    """Tells Berth of steps, epochs and metrics; saves the weights after each epoch where a path is given; stops
    the training between epochs when asked to."""

    class BerthCallback(_base()):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            job().watch_term()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            this = job()
            this.done = max(this.done, epoch)
            this.start_epoch()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            job().measure()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            this = job()
            if weights and this.first:
                root, extension = os.path.splitext(weights)
                part = root + ".part" + extension
                self.model.save_weights(part)
                os.replace(part, weights)
            if metrics and this.first:
                this.log(**{str(key): value for key, value in (logs or {}).items()})
            this.end_epoch()
            if this.should_stop():
                self.model.stop_training = True

    return BerthCallback()
