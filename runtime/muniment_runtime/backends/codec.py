"""Plain objects on the pipe to contract values and back; whatever does not fit is refused, on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from muniment_resources.errors import KnownError
from muniment_runtime.contracts import (
    FinishReason,
    GenerateRequest,
    GenerateResult,
    KvType,
    LoadedModel,
    Need,
    NeedBasis,
    NextField,
    OracleSizes,
    RunConfig,
    Segment,
)

__all__ = [
    "config_from_json",
    "config_to_json",
    "integers",
    "loaded_from_json",
    "loaded_to_json",
    "member",
    "need_from_json",
    "need_to_json",
    "request_from_json",
    "request_to_json",
    "result_from_json",
    "result_to_json",
    "segments_from_json",
    "segments_to_json",
    "sizes_from_json",
    "sizes_to_json",
    "strings",
]

_Plain = TypeVar("_Plain", str, int, float, bool, list[object], dict[str, object])


def member(data: Mapping[str, object], name: str, kind: type[_Plain]) -> _Plain:
    """Return a member of exactly this type; a whole number also passes as a float, a boolean never as a number.

    Raises:
        KnownError: ``E-WORKER-PROTOCOL``.
    """
    value = data.get(name)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    raise KnownError("E-WORKER-PROTOCOL")


def strings(data: Mapping[str, object], name: str) -> list[str]:
    """Return a list of strings, or raise ``E-WORKER-PROTOCOL``."""
    values = member(data, name, list)
    if not all(isinstance(value, str) for value in values):
        raise KnownError("E-WORKER-PROTOCOL")
    return [str(value) for value in values]


def objects(data: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """Return a list of objects, or raise ``E-WORKER-PROTOCOL``."""
    values = member(data, name, list)
    found: list[Mapping[str, object]] = [value for value in values if isinstance(value, dict)]
    if len(found) != len(values):
        raise KnownError("E-WORKER-PROTOCOL")
    return found


def integers(data: Mapping[str, object], name: str) -> list[int]:
    """Return a list of whole numbers, or raise ``E-WORKER-PROTOCOL``."""
    values = member(data, name, list)
    whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(whole) != len(values):
        raise KnownError("E-WORKER-PROTOCOL")
    return whole


def segments_to_json(segments: Sequence[Segment]) -> list[object]:
    """Return ``[[text, trusted], ...]``."""
    return [[segment.text, segment.trusted] for segment in segments]


def segments_from_json(data: Mapping[str, object], name: str = "segments") -> tuple[Segment, ...]:
    """Return segments; trust must be stated as a boolean, never assumed."""
    segments: list[Segment] = []
    for pair in member(data, name, list):
        match pair:
            case [str(text), bool(trusted)]:
                segments.append(Segment(text, trusted))
            case _:
                raise KnownError("E-WORKER-PROTOCOL")
    return tuple(segments)


def config_to_json(config: RunConfig) -> dict[str, object]:
    """Return the configuration as a plain object."""
    return {
        "model_id": config.model_id,
        "context": config.context,
        "kv_type": str(config.kv_type),
        "sequences": config.sequences,
        "batch": config.batch,
        "ubatch": config.ubatch,
        "flash_attention": config.flash_attention,
        "mmap": config.mmap,
        "device_layers": config.device_layers,
        "threads": config.threads,
        "unified": config.unified,
        "repack": config.repack,
    }


def config_from_json(data: Mapping[str, object]) -> RunConfig:
    """Return the configuration of a plain object."""
    try:
        kv_type = KvType(member(data, "kv_type", str))
    except ValueError:
        raise KnownError("E-WORKER-PROTOCOL") from None
    return RunConfig(
        model_id=member(data, "model_id", str),
        context=member(data, "context", int),
        kv_type=kv_type,
        sequences=member(data, "sequences", int),
        batch=member(data, "batch", int),
        ubatch=member(data, "ubatch", int),
        flash_attention=member(data, "flash_attention", bool),
        mmap=member(data, "mmap", bool),
        device_layers=member(data, "device_layers", int),
        threads=member(data, "threads", int),
        unified=member(data, "unified", bool),
        repack=member(data, "repack", bool),
    )


def need_to_json(need: Need) -> dict[str, object]:
    """Return the need, line by line, as a plain object."""
    return {**need._asdict(), "basis": str(need.basis)}


def need_from_json(data: Mapping[str, object]) -> Need:
    """Return the need of a plain object."""
    try:
        basis = NeedBasis(member(data, "basis", str))
    except ValueError:
        raise KnownError("E-WORKER-PROTOCOL") from None
    return Need(
        weights_bytes=member(data, "weights_bytes", int),
        kv_bytes=member(data, "kv_bytes", int),
        recurrent_bytes=member(data, "recurrent_bytes", int),
        compute_bytes=member(data, "compute_bytes", int),
        output_bytes=member(data, "output_bytes", int),
        base_bytes=member(data, "base_bytes", int),
        residual_bytes=member(data, "residual_bytes", int),
        basis=basis,
    )


def sizes_to_json(sizes: OracleSizes) -> dict[str, object]:
    """Return the result of a dry run as a plain object."""
    return dict(sizes._asdict())


def sizes_from_json(data: Mapping[str, object]) -> OracleSizes:
    """Return the result of a dry run; negative figures are refused."""
    sizes = OracleSizes(**{name: member(data, name, int) for name in OracleSizes._fields})
    if min(sizes) < 0:
        raise KnownError("E-WORKER-PROTOCOL")
    return sizes


def loaded_to_json(loaded: LoadedModel) -> dict[str, object]:
    """Return what was loaded as a plain object."""
    return {
        "model_id": loaded.model_id,
        "context": loaded.context,
        "sequences": loaded.sequences,
        "vocabulary": loaded.vocabulary,
        "load_s": loaded.load_s,
        "anonymous_bytes": loaded.anonymous_bytes,
        "file_bytes": loaded.file_bytes,
        "reported": None if loaded.reported is None else need_to_json(loaded.reported),
    }


def loaded_from_json(data: Mapping[str, object]) -> LoadedModel:
    """Return what was loaded."""
    return LoadedModel(
        model_id=member(data, "model_id", str),
        context=member(data, "context", int),
        sequences=member(data, "sequences", int),
        vocabulary=member(data, "vocabulary", int),
        load_s=member(data, "load_s", float),
        anonymous_bytes=member(data, "anonymous_bytes", int),
        file_bytes=member(data, "file_bytes", int),
        reported=None if data.get("reported") is None else need_from_json(member(data, "reported", dict)),
    )


def request_to_json(request: GenerateRequest) -> dict[str, object]:
    """Return the request as a plain object."""
    return {
        "segments": segments_to_json(request.segments),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "stop": list(request.stop),
        "fields": [
            {"text": item.text, "max_tokens": item.max_tokens, "stop": list(item.stop)} for item in request.fields
        ],
    }


def request_from_json(data: Mapping[str, object]) -> GenerateRequest:
    """Return the request of a plain object."""
    return GenerateRequest(
        segments=segments_from_json(data),
        max_tokens=member(data, "max_tokens", int),
        temperature=member(data, "temperature", float),
        seed=member(data, "seed", int),
        stop=tuple(strings(data, "stop")),
        fields=tuple(
            NextField(member(item, "text", str), member(item, "max_tokens", int), tuple(strings(item, "stop")))
            for item in objects(data, "fields")
        ),
    )


def result_to_json(result: GenerateResult) -> dict[str, object]:
    """Return the result as a plain object."""
    return {
        "untrusted_text": result.untrusted_text,
        "finish": str(result.finish),
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": result.completion_tokens,
        "prefill_s": result.prefill_s,
        "ttft_s": result.ttft_s,
        "tpot_s": result.tpot_s,
    }


def result_from_json(data: Mapping[str, object]) -> GenerateResult:
    """Return the result of a plain object."""
    try:
        finish = FinishReason(member(data, "finish", str))
    except ValueError:
        raise KnownError("E-WORKER-PROTOCOL") from None
    return GenerateResult(
        untrusted_text=member(data, "untrusted_text", str),
        finish=finish,
        prompt_tokens=member(data, "prompt_tokens", int),
        completion_tokens=member(data, "completion_tokens", int),
        prefill_s=member(data, "prefill_s", float),
        ttft_s=member(data, "ttft_s", float),
        tpot_s=member(data, "tpot_s", float),
    )
