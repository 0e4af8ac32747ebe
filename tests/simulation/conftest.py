"""What the tests of the simulator share."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest


@pytest.fixture(scope="module")
def process():
    """One process that simulates: the stand-ins of the product stay in it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool
