"""PyTorch with KubeProfiler: a linear model learns a noisy plane. Run it by

    run-scheduler --custom_dir DIR --script_path /custom/pytorch_example.py --batch_size 32 \\
        --training_set_size 2048 --max_epochs 8 --is_single_gpu true --estimated_memory 2000 pytorch-example
"""
import os
import time

import torch
from kubernetesdlprofile import kubeprofiler
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

PAUSE = float(os.environ.get("EXAMPLE_PAUSE", "0"))  # seconds a step takes longer, to watch it


class PlaneDataset(Dataset):
    def __init__(self, size, length):
        generator = torch.Generator().manual_seed(1)
        self.data = torch.randn(length, size, generator=generator)
        noise = 0.1 * torch.randn(length, 1, generator=generator)
        self.target = self.data @ torch.linspace(-1, 1, size).view(-1, 1) + noise

    def __getitem__(self, index):
        return self.data[index], self.target[index]

    def __len__(self):
        return len(self.data)


class Model(nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.prof = kubeprofiler.KubeProfiler()
        torch.manual_seed(1)
        self.fc = nn.Linear(input_size, output_size)

    def forward(self, data):
        return self.fc(data)


def main():
    model = Model(5, 1)
    prof = model.prof
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    path = os.path.join(prof.root_dir, "plane.pth")
    dataset = PlaneDataset(5, prof.TRAINING_SET_SIZE)
    parallel = nn.DataParallel(model) if torch.cuda.device_count() > 1 else model
    parallel.to(device)
    optimizer = optim.SGD(parallel.parameters(), lr=1e-2)
    criterion = nn.MSELoss()
    print(f"{prof.NUM_GPUS} GPUs assigned, {device}", flush=True)
    if prof.RESTARTED and os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location=device))
        print(f"restored after {prof.EPOCHS_DONE} epochs", flush=True)
    for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
        prof.start_epoch()
        total = 0.0
        order = torch.Generator().manual_seed(epoch)  # the same order, whenever this epoch is done
        loader = DataLoader(dataset, batch_size=prof.BATCH_SIZE, shuffle=True, generator=order)
        for data, target in loader:
            loss = criterion(parallel(data.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            time.sleep(PAUSE)
            prof.measure()
        torch.save(model.state_dict(), path + ".part")
        os.replace(path + ".part", path)
        prof.end_epoch()  # after the snapshot: an epoch that is reported is never done again
        print(f"epoch {epoch + 1} loss {total / len(loader):.6f}", flush=True)


if __name__ == "__main__":
    main()
