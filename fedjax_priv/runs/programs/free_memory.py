"""Memory that is free for programs to use."""

from collections.abc import Sequence
from typing import Any

import psutil


def free_bytes(devices: Sequence[Any]) -> int:
    """Free bytes of one of `devices`, that of the fullest; devices that are cores of a CPU share its memory evenly."""
    stats = [device.memory_stats() or {} for device in devices]
    if all("bytes_limit" in of for of in stats):
        return min(of["bytes_limit"] - of["bytes_in_use"] for of in stats)
    return psutil.virtual_memory().available // len(devices)
