"""Run something in a forked child, since LLVM ends the process on what it cannot select; tell how the child ended."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def outcome(run: Callable[[], object]) -> str:
    """ "" when `run` returned in a child; else the error's text, or the signal or status that ended the child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        message = ""
        try:
            run()
        except BaseException:
            message = traceback.format_exc(limit=-1)
        os.write(writer, message.encode()[-4000:])
        os._exit(1 if message else 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"the child died of signal {os.WTERMSIG(status)}"
    return message or ("" if os.WEXITSTATUS(status) == 0 else f"the child ended with status {os.WEXITSTATUS(status)}")
