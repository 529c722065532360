"""A probe worker whose scripted library dies, hangs or refuses, for tests of the one who asks it.

The file's architecture and the context say what happens; each request is noted in the log that the argument names.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.backends.probing import ProbeHandler
from muniment_runtime.contracts import OracleSizes, RunConfig
from muniment_runtime.model.gguf import read_header
from muniment_runtime.worker.host import claim_pipes, serve

DIES_ON_CONTEXT = (666, 667)
REFUSED_CONTEXT = 13
BUGGY_CONTEXT = 14
WEIGHTS = 4242


class Scripted:
    def __init__(self, log: Path, path: Path, model_id: str) -> None:
        self._log = log
        self._model_id = model_id
        header = read_header(path)
        kind = header.metadata["general.architecture"]
        twin = header.metadata.get("tokenizer.ggml.model") == "no_vocab"
        self._note(f"open {model_id} {'twin' if twin else 'real'}")
        if kind == "aborts" or (kind == "aborts-as-twin" and twin):
            os.abort()
        elif kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "hangs":
            time.sleep(60)
        elif kind == "unknown" or (kind == "refused-as-twin" and twin):
            raise KnownError("E-PROBE-MODEL", model=model_id)

    def sizes(self, config: RunConfig) -> OracleSizes:
        self._note(f"sizes {self._model_id} {config.context}")
        if config.context in DIES_ON_CONTEXT:
            os.abort()
        if config.context == BUGGY_CONTEXT:
            raise ValueError
        if config.context == REFUSED_CONTEXT:
            raise KnownError("E-PROBE-CONFIG", model=self._model_id, context=13, sequences=1, kv_type="f16")
        return OracleSizes(config.context, 0, 1, 1, WEIGHTS, config.context, config.sequences)

    def close(self) -> None:
        self._note(f"close {self._model_id}")

    def _note(self, line: str) -> None:
        with self._log.open("a", encoding="ascii") as file:
            file.write(line + "\n")


def main() -> None:
    stdin, stdout = claim_pipes()
    log = Path(sys.argv[1])
    serve(ProbeHandler(lambda path, model_id: Scripted(log, path, model_id)), stdin, stdout)


if __name__ == "__main__":
    main()
