"""Array types shared by batching, plans and the planner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]


Flags = NDArray[np.bool_]


ABSENT = -1
"""Pads replica matrices: no replica in this column."""
