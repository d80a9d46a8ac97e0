"""Products leave the process's BLAS as they found it, whoever else is multiplying."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tilewright.interpreter import numerics as nx


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_concurrent_products_restore_the_threads_of_the_blas() -> None:
    a, b = np.ones((4, 64, 32), np.float16), np.ones((4, 32, 64), np.float16)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with ThreadPoolExecutor(6) as pool:
            results = list(pool.map(lambda _: nx.dot(a, b, None, "f16"), range(60)))
        assert blas_threads() == before
    assert all((result == 32).all() for result in results)
