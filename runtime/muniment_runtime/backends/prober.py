"""The parent's side of dry runs: asks a probe child, and turns its death into a verdict on the file.

The library ends its process on many a damaged or odd file. That is an answer: such a file cannot be used, and it is
not tried again. The parent lives on, and the next question goes to a fresh child.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muniment_resources.errors import KnownError
from muniment_runtime.backends.codec import config_to_json, sizes_from_json
from muniment_runtime.backends.probing import PROBE_ROLE
from muniment_runtime.contracts import ModelSpec, OracleSizes, RunConfig
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.skeleton import write_skeleton
from muniment_runtime.worker.child import Timing
from muniment_runtime.worker.outcome import Cause
from muniment_runtime.worker.protocol import Json, Role
from muniment_runtime.worker.spawn import Spawner
from muniment_runtime.worker.supervisor import Supervisor

__all__ = ["ProbeTiming", "Prober"]

_NO_CHILD = frozenset({"E-WORKER-CIRCUIT", "E-WORKER-DIED", "E-WORKER-START"})

# The machine's doing, not the file's: these ends say nothing about the model.
_NO_VERDICT = frozenset({Cause.OUT_OF_MEMORY, Cause.STOPPED, Cause.START})


@dataclass(frozen=True)
class ProbeTiming:
    """Longest waits in seconds; far above what a slow disk needs, because passing them condemns the file.

    Attributes:
        sizes_s: For one dry run, or for opening a file.
        verify_s: For opening a real file with its vocabulary.
    """

    sizes_s: float = 60.0
    verify_s: float = 120.0


@dataclass
class _Subject:
    """What is known about one model file in this prober's life.

    Attributes:
        verdict: Why it is not tried again.
        bad: The configuration on which the child died, if one did, and what that meant for it.
        twin: Its weightless twin; ``None`` also when none is possible.
        prepared: Whether a twin was tried for.
    """

    verdict: KnownError | None = None
    bad: tuple[RunConfig, KnownError] | None = None
    twin: Path | None = None
    prepared: bool = False


class Prober:
    """Lets the library itself compute memory needs, in a child process that is kept warm. Thread-safe.

    Args:
        spawner: Starts processes.
        role: Role of the child.
        timing: Longest waits.
        child_timing: Budgets of the child process.
    """

    def __init__(
        self,
        spawner: Spawner,
        role: Role = PROBE_ROLE,
        timing: ProbeTiming | None = None,
        child_timing: Timing | None = None,
    ) -> None:
        self._spawner = spawner
        self._role = role
        self._timing = timing or ProbeTiming()
        self._child_timing = child_timing
        self._lock = threading.Lock()
        self._subjects: dict[tuple[str, Path], _Subject] = {}
        self._supervisor: Supervisor | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def sizes(self, spec: ModelSpec, configs: Sequence[RunConfig]) -> list[OracleSizes | KnownError]:
        """Return what the library computes for each configuration of one model, or why there is no figure.

        The dry runs read a weightless twin of the file where one is possible, else the file itself.

        Args:
            spec: The model; its file is read when it is asked about for the first time.
            configs: Complete configurations.

        Returns:
            One item per configuration, in order. An error is ``E-PROBE-CONFIG`` when the library refuses the
            configuration; ``E-PROBE-MODEL`` or ``E-PROBE-CRASHED`` when it cannot load the file;
            ``E-PROBE-OUTPUT`` when it told no sizes; ``E-MODEL-FILE`` or ``E-MODEL-MALFORMED`` when the file does
            not pass our own reader; ``E-WORKER-...`` when the child itself failed, which says nothing about the model.
        """
        answers: list[OracleSizes | KnownError] = []
        with self._lock:
            for config in configs:
                answer = self._sizes(spec, config)
                answers.append(answer)
                if isinstance(answer, KnownError) and answer.code in _NO_CHILD:
                    # The rest would wait for one failing start after the other.
                    answers.extend([answer] * (len(configs) - len(answers)))
                    break
        return answers

    def verify(self, spec: ModelSpec) -> KnownError | None:
        """Load the real file, vocabulary included, without its weights: the check before a model is accepted.

        Returns:
            ``None`` when the library can run it; else an error as of ``sizes``.
        """
        with self._lock:
            subject = self._subject(spec)
            if subject.verdict is not None:
                return subject.verdict
            try:
                self._ask("verify", spec, spec.path, self._timing.verify_s)
            except _DiedError as error:
                return self._condemn(subject, error)
            except KnownError as error:
                return error
            return None

    def close(self) -> None:
        """End the child and remove the twins; the next question starts again. Verdicts stay. Idempotent.

        A question that is being asked ends with an error.
        """
        # Before the lock: whoever holds it waits for this child.
        supervisor = self._supervisor
        if supervisor is not None:
            supervisor.close()
        with self._lock:
            supervisor, self._supervisor = self._supervisor, None
            if supervisor is not None:
                supervisor.close()
            for subject in self._subjects.values():
                subject.twin, subject.prepared = None, False
            folder, self._folder = self._folder, None
            if folder is not None:
                folder.cleanup()

    def _sizes(self, spec: ModelSpec, config: RunConfig) -> OracleSizes | KnownError:
        subject = self._subject(spec)
        if subject.verdict is not None:
            return subject.verdict
        if subject.bad is not None and subject.bad[0] == config:
            return subject.bad[1]
        try:
            path = self._opened(spec, subject)
        except _DiedError as error:
            return self._condemn(subject, error)
        except KnownError as error:
            return error
        try:
            arguments = {"config": config_to_json(config)}
            return sizes_from_json(self._ask("sizes", spec, path, self._timing.sizes_s, arguments))
        except _DiedError as error:
            # One configuration may be odd; a second death is the file's.
            if subject.bad is not None:
                return self._condemn(subject, error)
            if error.remembered:
                subject.bad = (config, error.verdict)
            return error.verdict
        except KnownError as error:
            return error

    def _opened(self, spec: ModelSpec, subject: _Subject) -> Path:
        """Have the model open in the child and return the path that it is open under."""
        twin = self._twin(spec, subject)
        if twin is not None:
            try:
                self._ask("open", spec, twin, self._timing.sizes_s)
            except KnownError as error:
                if _is_of_worker(error):
                    raise
                # A verdict must come from the file itself, never from its twin.
                subject.twin = None
            else:
                return twin
        self._ask("open", spec, spec.path, self._timing.sizes_s)
        return spec.path

    def _twin(self, spec: ModelSpec, subject: _Subject) -> Path | None:
        if not subject.prepared:
            header = read_header(spec.path)
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="muniment-probe-")
            # A number, not a name: names of imported files are foreign text.
            path = Path(self._folder.name) / f"{len(list(Path(self._folder.name).iterdir()))}.gguf"
            try:
                subject.twin = write_skeleton(header, path)
            except OSError:
                subject.twin = None
            subject.prepared = True
        return subject.twin

    def _ask(
        self, op: str, spec: ModelSpec, path: Path, timeout_s: float, arguments: Mapping[str, object] | None = None
    ) -> Json:
        """Ask the child.

        Raises:
            _DiedError: It ended, or did not answer in time.
            KnownError: What it reported, or why it could not be started.
        """
        if self._supervisor is None:
            self._supervisor = Supervisor(self._spawner, self._role, timing=self._child_timing)
        child = self._supervisor.child()
        child.hello()
        request = {
            "path": str(path.absolute()),
            "sha256": spec.sha256,
            "model": spec.model_id,
            **(arguments or {}),
        }
        try:
            return child.request(op, request, timeout_s=timeout_s)[0]
        except KnownError as error:
            if error.code not in {"E-WORKER-DIED", "E-WORKER-TIMEOUT"}:
                raise
            outcome = child.stop()
            late = error.code == "E-WORKER-TIMEOUT"
        # It did its duty: its death was about this file and costs no restart.
        self._supervisor.retry()
        raise _DiedError(spec.model_id, Cause.HANG if late else outcome.cause)

    def _condemn(self, subject: _Subject, error: _DiedError) -> KnownError:
        if error.remembered:
            subject.verdict = error.verdict
        return error.verdict

    def _subject(self, spec: ModelSpec) -> _Subject:
        return self._subjects.setdefault((spec.sha256, spec.path), _Subject())


class _DiedError(KnownError):
    """The child ended over a question."""

    def __init__(self, model_id: str, cause: Cause) -> None:
        super().__init__("E-PROBE-CRASHED", model=model_id, cause=str(cause))
        self.verdict = KnownError("E-PROBE-CRASHED", model=model_id, cause=str(cause))
        self.remembered = cause not in _NO_VERDICT


def _is_of_worker(error: KnownError) -> bool:
    """Whether the child as such failed: nothing is said about the model."""
    return error.code.startswith("E-WORKER-")
