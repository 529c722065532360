"""Dry runs with the real library: shapes of published models without weights, and the real files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muniment_resources.errors import KnownError
from muniment_runtime.backends.prober import Prober
from muniment_runtime.backends.probing import PROBE_ROLE
from muniment_runtime.contracts import KvType, ModelSpec, Need, NeedBasis, OracleSizes, RunConfig
from muniment_runtime.engine.library import Library, open_library
from muniment_runtime.engine.llama import LlamaModel
from muniment_runtime.engine.oracle import DryRun
from muniment_runtime.model.gguf import read_header
from muniment_runtime.model.skeleton import Shape, ShapeTensor, ShapeValue, write_shape, write_skeleton
from muniment_runtime.model.spec import model_spec
from muniment_runtime.worker.child import Child
from muniment_runtime.worker.spawn import ProcessSpawner
from tests.helpers.shapes import SHAPES, Maker, dense

MIB = 1 << 20
STEP = 0.01 * MIB
"""What the library rounds its figures to."""
SMALL = "smollm2-135m-instruct-q4_1"
CONFIGS = (
    RunConfig("m", 512),
    RunConfig("m", 8192, sequences=4, unified=True),
    RunConfig("m", 2048, KvType.Q8_0, sequences=2, ubatch=128),
    RunConfig("m", 4096, flash_attention=False),
)


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library()


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    prober = Prober(ProcessSpawner())
    yield prober
    prober.close()


def _real_files(cache: Path) -> list[Path]:
    files = sorted(cache.glob("*.gguf"))
    assert len(files) >= 3
    return files


def _spec(path: Path) -> ModelSpec:
    return model_spec(read_header(path), model_id=path.stem, path=path, sha256=path.stem)


def _ask(library: Library, path: Path, configs: tuple[RunConfig, ...] = CONFIGS) -> list[OracleSizes]:
    dry = DryRun(library, path, path.stem)
    try:
        return [dry.sizes(config) for config in configs]
    finally:
        dry.close()


def _code(answer: OracleSizes | KnownError | None) -> tuple[str, str]:
    assert isinstance(answer, KnownError)
    return answer.code, str(answer.params.get("cause", ""))


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_loads_without_weights_and_tells_its_sizes(name: str, library: Library, tmp_path: Path) -> None:
    shape = SHAPES[name]()
    path = write_shape(shape, tmp_path / "shape.gguf")
    assert path is not None
    small, large = _ask(library, path, (RunConfig("m", 1024), RunConfig("m", 8192)))
    assert small.weights_bytes == shape.weights_bytes
    assert (small.context, large.context, large.sequences) == (1024, 8192, 1)
    assert small.output_bytes == pytest.approx(4 * shape.vocabulary, abs=STEP)
    assert small.compute_bytes > small.output_bytes
    recurrent = any(key.startswith(("ssm.", "shortconv.")) for key in shape.keys)
    assert (small.recurrent_bytes > 0) == recurrent
    assert large.recurrent_bytes == small.recurrent_bytes
    # Only a model that is recurrent throughout has no cache.
    assert (small.kv_bytes == 0) == (shape.keys.get("attention.head_count") == 0)
    windowed = "attention.sliding_window" in shape.keys and shape.architecture != "phi3"
    if windowed:
        assert small.kv_bytes < large.kv_bytes <= 8 * small.kv_bytes
    else:
        assert large.kv_bytes == pytest.approx(8 * small.kv_bytes, abs=8 * STEP)


@pytest.mark.parametrize(
    ("kv_type", "block_bytes"),
    [
        (KvType.F32, 128),
        (KvType.F16, 64),
        (KvType.BF16, 64),
        (KvType.Q8_0, 34),
        (KvType.Q5_1, 24),
        (KvType.Q5_0, 22),
        (KvType.Q4_1, 20),
        (KvType.Q4_0, 18),
        (KvType.IQ4_NL, 18),
    ],
)
def test_every_type_of_cache_has_its_size(kv_type: KvType, block_bytes: int, library: Library, tmp_path: Path) -> None:
    path = write_shape(SHAPES["llama-3.2-1b"](), tmp_path / "shape.gguf")
    assert path is not None
    (sizes,) = _ask(library, path, (RunConfig("m", 4096, kv_type),))
    # 16 layers, K and V of 8 heads x 64, in blocks of 32
    assert sizes.kv_bytes == 4096 * 16 * 2 * (8 * 64 // 32) * block_bytes


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("llama-3.2-1b", 1024.0),
        ("llama-3.1-8b", 4096.0),
        ("gemma3-4b", 640.0 + 174.0),
        ("deepseek2-lite", 972.0),
        ("qwen3.5-4b-like", 1024.0),
    ],
)
def test_caches_at_32k_have_the_sizes_worked_out_by_hand(
    name: str, mib: float, library: Library, tmp_path: Path
) -> None:
    path = write_shape(SHAPES[name](), tmp_path / "shape.gguf")
    assert path is not None
    (sizes,) = _ask(library, path, (RunConfig("m", 32768),))
    assert sizes.kv_bytes == mib * MIB


def test_a_twin_gives_the_sizes_of_the_real_file(model_cache: Path, library: Library, tmp_path: Path) -> None:
    for real in _real_files(model_cache):
        twin = write_skeleton(read_header(real), tmp_path / real.name)
        assert twin is not None
        assert _ask(library, twin) == _ask(library, real)
        assert _ask(library, twin)[0].weights_bytes == _spec(real).weights_bytes


@pytest.mark.parametrize("config", CONFIGS)
def test_a_real_load_reports_what_the_dry_run_said(config: RunConfig, model_cache: Path, library: Library) -> None:
    path = model_cache / f"{SMALL}.gguf"
    (said,) = _ask(library, path, (config,))
    model = LlamaModel(library, path, config)
    facts = model.facts
    model.close()
    assert isinstance(facts.reported, Need)
    assert facts.reported == Need(
        weights_bytes=facts.reported.weights_bytes,
        kv_bytes=said.kv_bytes,
        recurrent_bytes=0,
        compute_bytes=said.compute_bytes,
        output_bytes=said.output_bytes,
        base_bytes=0,
        residual_bytes=0,
        basis=NeedBasis.MEASURED,
    )
    # Q4_1 is not copied into another layout anywhere; the mapping covers padding between tensors as well.
    assert facts.reported.weights_bytes == pytest.approx(said.weights_bytes, abs=MIB // 8)
    assert (facts.context, facts.sequences) == (said.context, said.sequences)


def test_copies_of_weights_are_reported(model_cache: Path, library: Library) -> None:
    path = model_cache / "gemma-3-270m-q4_k_m.gguf"
    spec = _spec(path)
    reported: dict[bool, Need] = {}
    for repack in (True, False):
        model = LlamaModel(library, path, RunConfig("m", 256, repack=repack))
        assert model.facts.reported is not None
        reported[repack] = model.facts.reported
        model.close()
    copied = reported[True].weights_bytes - reported[False].weights_bytes
    assert 0 <= copied <= spec.repack_bytes + 2 * STEP
    assert reported[True]._replace(weights_bytes=0) == reported[False]._replace(weights_bytes=0)


def test_the_child_is_guarded() -> None:
    child = Child(ProcessSpawner(), PROBE_ROLE)
    try:
        hello = child.hello()
    finally:
        child.stop()
    capabilities = hello["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["audit_hook"] is True
    assert hello["role"] == PROBE_ROLE


def test_the_prober_says_what_the_library_says(model_cache: Path, library: Library, prober: Prober) -> None:
    path = model_cache / f"{SMALL}.gguf"
    assert prober.sizes(_spec(path), CONFIGS) == _ask(library, path)
    assert prober.verify(_spec(path)) is None


def test_a_quantized_cache_without_flash_attention_is_refused(model_cache: Path, prober: Prober) -> None:
    path = model_cache / f"{SMALL}.gguf"
    impossible = RunConfig("m", 512, KvType.Q8_0, flash_attention=False)
    refused, fine = prober.sizes(_spec(path), [impossible, RunConfig("m", 512)])
    assert _code(refused) == ("E-PROBE-CONFIG", "")
    assert isinstance(fine, OracleSizes)


@pytest.mark.parametrize("kv_type", [KvType.Q8_0, KvType.Q4_0])
def test_heads_that_are_no_whole_blocks_cannot_be_quantized(kv_type: KvType, tmp_path: Path, prober: Prober) -> None:
    shape = dense(
        "llama",
        layers=2,
        embedding=640,
        feed_forward=1024,
        heads=8,
        heads_kv=2,
        vocabulary=1000,
        types=("Q8_0", "Q8_0"),
    )
    path = write_shape(shape, tmp_path / "eighty.gguf")
    assert path is not None
    refused, fine = prober.sizes(_spec(path), [RunConfig("m", 512, kv_type), RunConfig("m", 512)])
    assert _code(refused) == ("E-PROBE-CONFIG", "")
    assert isinstance(fine, OracleSizes)


def _odd(tmp_path: Path, architecture: str, keys: dict[str, ShapeValue]) -> ModelSpec:
    """A file that our reader accepts and the library should not be trusted with."""
    made = Maker(architecture, 2, 256, 512, "Q8_0", "Q8_0", 1024)
    made.start(tied=True, feed_forward_length=512, attention__head_count=4, attention__head_count_kv=2)
    made.keys.update(keys)
    for number in range(2):
        layer = f"blk.{number}."
        made.norms(layer, "attn_norm", "ffn_norm")
        made.attention(layer, 4, 2, 64)
        made.feed_forward(layer, 512)
    path = write_shape(made.shape(), tmp_path / "odd.gguf")
    assert path is not None
    return model_spec(read_header(path), model_id="odd", path=path, sha256=f"{architecture} {sorted(keys)}")


@pytest.mark.parametrize(
    "keys",
    [
        {"expert_count": 100_000, "expert_used_count": 8},
        {"nextn_predict_layers": 9},
    ],
)
def test_a_file_on_which_the_library_gives_up_is_a_verdict(
    keys: dict[str, ShapeValue], tmp_path: Path, prober: Prober, model_cache: Path
) -> None:
    spec = _odd(tmp_path, "llama", keys)
    assert _code(prober.sizes(spec, CONFIGS[:1])[0]) == ("E-PROBE-CRASHED", "crash")
    assert _code(prober.verify(spec)) == ("E-PROBE-CRASHED", "crash")
    good = _spec(model_cache / f"{SMALL}.gguf")
    assert isinstance(prober.sizes(good, CONFIGS[:1])[0], OracleSizes)


def test_more_experts_used_than_there_are_is_refused_before_the_library_would_end_the_process(tmp_path: Path) -> None:
    with pytest.raises(KnownError) as caught:
        _odd(tmp_path, "llama", {"expert_count": 4, "expert_used_count": 8})
    assert (caught.value.code, caught.value.params["what"]) == ("E-MODEL-MALFORMED", "expert_used_count")


def test_an_architecture_that_the_library_does_not_know_is_a_verdict(tmp_path: Path, prober: Prober) -> None:
    spec = _odd(tmp_path, "brandnew", {})
    assert _code(prober.sizes(spec, CONFIGS[:1])[0]) == ("E-PROBE-MODEL", "")
    assert _code(prober.verify(spec)) == ("E-PROBE-MODEL", "")


def test_a_file_that_lacks_a_tensor_is_a_verdict(tmp_path: Path, prober: Prober) -> None:
    whole = SHAPES["qwen2.5-0.5b"]()
    rest = tuple(tensor for tensor in whole.tensors if tensor.name != "blk.3.attn_q.weight")
    shape = Shape(whole.architecture, whole.vocabulary, whole.keys, (*rest, ShapeTensor("odd.weight", (32,), "F32")))
    path = write_shape(shape, tmp_path / "lacking.gguf")
    assert path is not None
    assert _code(prober.verify(_spec(path))) == ("E-PROBE-MODEL", "")
