"""A million rows that are read as they are needed: memory stays small, and no row is read for nothing."""

import subprocess
import sys

CODE = """
import resource, torch
torch.set_num_threads(1)
import metricopt as mo
from torch.utils.data import Dataset, Subset

class Rows(Dataset):
    read = 0
    def __len__(self):
        return 1_000_000
    def __getitem__(self, i):
        Rows.read += 1
        x = torch.randn(200, generator=torch.Generator().manual_seed(i))
        return x, int(x[0] + x[1] > 1)

data = Rows()
net = torch.nn.Sequential(torch.nn.Linear(200, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
recipe = mo.Recipe(start_steps=20)
result = mo.optimize(net, metric="f1", train=Subset(data, range(996_000)), val=Subset(data, range(996_000, 1_000_000)),
                     queries=15, recipe=recipe, batch_size=32, learn_from_val=False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((peak - before) / 2**20, Rows.read)
"""


def test_memory_stays_far_below_the_size_of_the_data_and_rows_are_read_as_often_as_batches_are_drawn():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=True)
    gibibytes, read = (float(part) for part in done.stdout.split())
    assert gibibytes < 1.0  # all rows would be 0.75 GiB of numbers alone, as Python objects several times that
    # 20 steps of 32 rows, some passes over the 4,000 of val (truth, activations, the decision), a few first rows.
    assert read < 20 * 32 * 2 + 8 * 4_000 + 4_000
