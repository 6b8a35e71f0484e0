"""Where units of work run: processes of this machine, or a Dask cluster."""

from __future__ import annotations

from contextlib import contextmanager

from joblib import parallel_config

CONNECT_SECONDS = 15


@contextmanager
def cluster(scheduler=None):
    """Run joblib's work on a Dask cluster inside this block; on this machine if no address is given.

    Parameters
    ----------
    scheduler : str, optional
        Address of the scheduler, such as ``tcp://10.0.0.5:8786``.

    Examples
    --------
    >>> with cluster(None):
    ...     pass
    """
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('a scheduler needs Dask: pip install "lupi[dask]".') from None
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=True)
    except (OSError, ValueError) as problem:
        raise ValueError(
            f"no Dask scheduler answers at {scheduler!r} ({problem}); start one with `dask scheduler` and workers with "
            "`dask worker ADDRESS --nthreads 1`, and give its address, such as tcp://10.0.0.5:8786."
        ) from None
    with client, parallel_config(backend="dask", wait_for_workers_timeout=CONNECT_SECONDS):
        yield
