"""PyTorch Lightning with KubeProfiler: the module calls the profiler in its hooks, checkpoints lie below root_dir.

Where Lightning is not installed, a trainer of a few lines stands in for it: the same hooks, the same folders.
"""
import os
import time

import torch
from kubernetesdlprofile import kubeprofiler
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

try:
    import pytorch_lightning as pl
except ImportError:
    pl = None

PAUSE = float(os.environ.get("EXAMPLE_PAUSE", "0"))


class SmallTrainer:
    """fit() as Lightning does it for one process on the CPU."""

    def __init__(self, max_epochs, default_root_dir):
        self.max_epochs, self.current_epoch = max_epochs, 0
        logs = os.path.join(default_root_dir, "lightning_logs")
        os.makedirs(logs, exist_ok=True)
        taken = [int(it[8:]) for it in os.listdir(logs) if it.startswith("version_")]
        self.folder = os.path.join(logs, "version_%d" % (max(taken, default=-1) + 1), "checkpoints")
        os.makedirs(self.folder)

    def fit(self, module, loaders, ckpt_path=None):
        optimizer = module.configure_optimizers()
        if ckpt_path and os.path.exists(ckpt_path):
            state = torch.load(ckpt_path)
            module.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            self.current_epoch = state["epoch"]
            print(f"restored {os.path.basename(ckpt_path)}", flush=True)
        while self.current_epoch < self.max_epochs:
            module.current_epoch_number = self.current_epoch
            module.on_train_epoch_start()
            for number, batch in enumerate(loaders(self.current_epoch)):
                loss = module.training_step(batch, number)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            self.current_epoch += 1
            path = os.path.join(self.folder, "epoch=%d.ckpt" % (self.current_epoch - 1))
            torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(),
                        "epoch": self.current_epoch}, path + ".part")
            os.replace(path + ".part", path)
            module.on_train_epoch_end()


class Net(pl.LightningModule if pl else nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        self.prof = kubeprofiler.KubeProfiler()
        self.total, self.count = 0.0, 0

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.total, self.count = self.total + loss.item(), self.count + 1
        time.sleep(PAUSE)
        self.prof.measure()
        return loss

    def on_train_epoch_start(self):
        self.total, self.count = 0.0, 0
        self.prof.start_epoch()

    def on_train_epoch_end(self):
        self.prof.end_epoch()
        print(f"epoch {self.prof.epoch} loss {self.total / self.count:.6f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    net = Net()
    prof = net.prof
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(prof.TRAINING_SET_SIZE, 8, generator=generator)
    data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())

    def loader(epoch):
        return DataLoader(data, batch_size=prof.BATCH_SIZE, shuffle=True, drop_last=True,
                          generator=torch.Generator().manual_seed(epoch))

    ckpt = prof.ckpt_path if prof.RESTARTED else None
    if pl:
        trainer = pl.Trainer(max_epochs=prof.EPOCHS, default_root_dir=prof.root_dir, enable_progress_bar=False)
        trainer.fit(net, loader(0), ckpt_path=ckpt if ckpt and os.path.exists(ckpt) else None)
    else:
        SmallTrainer(prof.EPOCHS, prof.root_dir).fit(net, loader, ckpt_path=ckpt)


if __name__ == "__main__":
    main()
