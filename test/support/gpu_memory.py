"""What a process holds on the GPU: the driver's count of free memory is of all processes together,
and tests run beside each other."""

from __future__ import annotations

import gc
from typing import Any

from polyc.runtime import driver


def held_bytes(torch: Any) -> int:
    """Bytes of device memory that this process has for data: PyTorch's, what it keeps for later
    included, and those of buffers of ours that are not freed."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    ours = (one.size for one in gc.get_objects() if isinstance(one, driver.Buffer))
    return torch.cuda.memory_reserved() + sum(ours)
