"""A script that uses torch.profiler. Argument: the step before which its session begins; it lasts for 40 steps."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lean import PRELUDE

sys.path.pop()
exec(PRELUDE)
import torch  # noqa: E402

net = torch.nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.01)
first = int(sys.argv[1])
own = torch.profiler.profile()
for number in range(100):
    if number == first:
        own.start()
    sgd.zero_grad()
    net(torch.ones(2, 4)).mean().backward()
    sgd.step()
    if number == first + 39:
        own.stop()
print(sum(event.count for event in own.key_averages() if event.key == "aten::addmm"))
