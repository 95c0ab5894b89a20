"""The smallest training there is, without any package: gradient descent on a line with noise, by `import berth`."""
import json
import os
import random
import time

import berth

PAUSE = float(os.environ.get("EXAMPLE_PAUSE", "0.02"))  # seconds of a step

rng = random.Random(1)
data = [(x / 50, 3 * x / 50 + 1 + rng.gauss(0, 0.1)) for x in range(100)]
w = b = 0.0
path = berth.snapshot_path("line.json")
if berth.restarted() and os.path.exists(path):
    with open(path, encoding="ascii") as src:
        w, b = json.load(src)
    print(f"goes on after {berth.job().done} epochs: y = {w:.2f}x + {b:.2f}", flush=True)

batches = [data[at:at + 10] for at in range(0, len(data), 10)]
for epoch in berth.epochs():
    for batch in berth.steps(batches):
        for x, y in batch:
            error = w * x + b - y
            w, b = w - 0.05 * error * x, b - 0.05 * error
        time.sleep(PAUSE)
    loss = sum((w * x + b - y) ** 2 for x, y in data) / len(data)
    berth.log(loss=loss)
    print(f"epoch {epoch + 1} of {berth.job().max_epochs}  loss {loss:.4f}  y = {w:.2f}x + {b:.2f}", flush=True)
    with open(path + ".part", "w", encoding="ascii") as out:
        json.dump([w, b], out)
    os.replace(path + ".part", path)
