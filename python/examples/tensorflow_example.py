"""TensorFlow with KubeProfiler: a callback calls the profiler, weights are kept in root_dir/tf_ckpts.

Where TensorFlow is not installed, a model in numpy (or, without that, in plain Python) stands in for Keras': fit()
with epochs, initial_epoch and callbacks, as there.
"""
import json
import os
import random
import time

from kubernetesdlprofile import kubeprofiler

try:
    import numpy
except ImportError:
    numpy = None

PAUSE = float(os.environ.get("EXAMPLE_PAUSE", "0"))


class Model:
    """Logistic regression by gradient descent, with the part of Keras' interface that is used below."""

    def __init__(self, size):
        self.w, self.b = [0.0] * size, 0.0

    def save_weights(self, path):
        with open(path + ".part", "w", encoding="ascii") as out:
            json.dump([self.w, self.b], out)
        os.replace(path + ".part", path)

    def load_weights(self, path):
        with open(path, encoding="ascii") as src:
            self.w, self.b = json.load(src)

    def _step(self, rows, labels, rate=0.5):
        """One batch; returns the mean loss before it."""
        if numpy:
            x, y = numpy.array(rows), numpy.array(labels)
            p = 1 / (1 + numpy.exp(-(x @ numpy.array(self.w) + self.b)))
            loss = -numpy.mean(y * numpy.log(p + 1e-9) + (1 - y) * numpy.log(1 - p + 1e-9))
            grad = (p - y) @ x / len(y)
            self.w = [float(it) for it in numpy.array(self.w) - rate * grad]
            self.b = float(self.b - rate * numpy.mean(p - y))
            return float(loss)
        from math import exp, log

        loss, gw, gb = 0.0, [0.0] * len(self.w), 0.0
        for row, label in zip(rows, labels):
            p = 1 / (1 + exp(-(sum(a * b for a, b in zip(row, self.w)) + self.b)))
            loss -= label * log(p + 1e-9) + (1 - label) * log(1 - p + 1e-9)
            gw = [g + (p - label) * a for g, a in zip(gw, row)]
            gb += p - label
        n = len(rows)
        self.w = [w - rate * g / n for w, g in zip(self.w, gw)]
        self.b -= rate * gb / n
        return loss / n

    def fit(self, x, y, batch_size, epochs, initial_epoch=0, callbacks=()):
        for it in callbacks:
            it.model = self
        for epoch in range(initial_epoch, epochs):
            for it in callbacks:
                it.on_epoch_begin(epoch)
            order = list(range(len(x)))
            random.Random(epoch).shuffle(order)
            losses = []
            for batch, at in enumerate(range(0, len(order), batch_size)):
                part = order[at:at + batch_size]
                losses.append(self._step([x[i] for i in part], [y[i] for i in part]))
                for it in callbacks:
                    it.on_train_batch_end(batch)
            for it in callbacks:
                it.on_epoch_end(epoch, {"loss": sum(losses) / len(losses)})


class ModelCheckpoint:
    model = None

    def __init__(self, filepath):
        self.filepath = filepath

    def on_epoch_begin(self, epoch, logs=None):
        pass

    def on_train_batch_end(self, batch, logs=None):
        pass

    def on_epoch_end(self, epoch, logs=None):
        self.model.save_weights(self.filepath)


class KubeProfilerCallback:
    model = None

    def __init__(self, prof):
        self.prof = prof

    def on_epoch_begin(self, epoch, logs=None):
        self.prof.start_epoch()

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(PAUSE)
        self.prof.measure()

    def on_epoch_end(self, epoch, logs=None):
        self.prof.end_epoch()
        print(f"epoch {epoch + 1} loss {logs['loss']:.6f}", flush=True)


def main():
    prof = kubeprofiler.KubeProfiler()
    path = os.path.join(prof.root_dir, "tf_ckpts")
    rng = random.Random(5)
    x = [[rng.gauss(0, 1) for _ in range(4)] for _ in range(prof.TRAINING_SET_SIZE)]
    y = [1.0 if a + 0.5 * b - c > 0 else 0.0 for a, b, c, _ in x]
    model = Model(4)
    initial_epoch = 0
    if prof.RESTARTED and os.path.exists(path):
        model.load_weights(path)
        initial_epoch = prof.EPOCHS_DONE
        print(f"restored after {initial_epoch} epochs", flush=True)
    model.fit(x, y, batch_size=prof.BATCH_SIZE, epochs=prof.EPOCHS, initial_epoch=initial_epoch,
              callbacks=[ModelCheckpoint(path), KubeProfilerCallback(prof)])


if __name__ == "__main__":
    main()
