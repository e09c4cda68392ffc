"""The buffers of the launch files beside this, and what NumPy says must come out.

    python examples/launches/inputs.py            # writes a folder of .npy files for each
    coasm run $AITER/gfx942/fmha_v3_fwd/MI300/fwd_hd192x128_bf16_rtna.co \\
        --spec examples/launches/fmha_fwd.yaml

The objects are those of ROCm/aiter (hsa/). What their arguments mean is what aiter's host code
gives them: csrc/cpp_itfs/mha_fwd.cu, csrc/py_itfs_cu/asm_a8w8_blockscale_bpreshuffle.cu,
asm_moe_2stage.cu, asm_topksoftmax.cu and asm_mla.cu. References are computed in float64 from the
rounded inputs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def softmax(scores: Array) -> tuple[Array, Array]:
    """The softmax along the last axis, and the logarithm of its denominator."""
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - most)
    total = powers.sum(-1, keepdims=True)
    return powers / total, (most + np.log(total))[..., 0]


def normal(draw: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Normally distributed numbers, rounded to a type."""
    return draw.standard_normal(shape).astype(dtype).astype(np.float32)


def shuffled(weight: Array) -> Array:
    """Rows of 8-bit numbers in the order in which aiter's kernels load them.

    16 rows by 32 columns go together; of those, 16 columns of each row follow each other.
    """
    *experts, rows, columns = weight.shape
    tiles = weight.reshape(-1, rows // 16, 16, columns // 32, 2, 16)
    return tiles.transpose(0, 1, 3, 4, 2, 5).reshape(*experts, rows, columns)


def fmha_fwd(draw: np.random.Generator) -> Arrays:
    """Attention, [batch, sequence, heads, size]: 1 x 200 x 2, q and k of 192, v of 128."""
    q, k = (normal(draw, (1, 200, 2, 192), ml_dtypes.bfloat16) for _ in "qk")
    v = normal(draw, (1, 200, 2, 128), ml_dtypes.bfloat16)
    wide = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    queries, keys, values = wide
    parts, sums = softmax(queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(192))
    out = (parts @ values).transpose(0, 2, 1, 3)
    return {"q": q, "k": k, "v": v, "out": out, "lse": sums}


def fp8_gemm(draw: np.random.Generator) -> Arrays:
    """C[100, 256] = A * B^T over 512, a scale for 128 of a row of A and for 128 x 128 of B."""
    m, n, k = 100, 256, 512
    a, b = (normal(draw, (rows, k), ml_dtypes.float8_e4m3fnuz) for rows in (m, n))
    a_scale = draw.uniform(0.1, 1, (m, k // 128)).astype(np.float32)
    b_scale = draw.uniform(0.1, 1, (n // 128, k // 128)).astype(np.float32)
    left = a.astype(np.float64) * np.repeat(a_scale, 128, 1)
    right = b.astype(np.float64) * np.repeat(np.repeat(b_scale, 128, 0), 128, 1)
    return {
        "a": a, "b": shuffled(b), "a_scale": a_scale.T, "b_scale": b_scale, "c": left @ right.T,
    }  # fmt: skip


def moe_stage1(draw: np.random.Generator) -> Arrays:
    """24 tokens of 256, 2 of 4 experts each, gate and up of 256, a scale for each row of both.

    Tokens are sorted by expert and each expert's are filled up to blocks of 32 with one that is
    there no more, whose row the kernel reads all the same.
    """
    tokens, experts, chosen, dim, hidden, block = 24, 4, 2, 256, 256, 32
    kind = ml_dtypes.float8_e4m3fnuz
    x, gate_up = normal(draw, (tokens, dim), kind), normal(draw, (experts, 2 * hidden, dim), kind)
    x_scale = draw.uniform(0.01, 0.1, tokens).astype(np.float32)
    gate_up_scale = draw.uniform(0.1, 1, (experts, 2 * hidden)).astype(np.float32)
    experts_of = np.stack([draw.permutation(experts)[:chosen] for _ in range(tokens)])
    ids: list[int] = []
    block_experts: list[int] = []
    for expert in range(experts):
        own = [int(t) | int(at) << 24 for t, at in np.argwhere(experts_of == expert)]
        own += [tokens | chosen << 24] * (-len(own) % block)
        ids += own
        block_experts += [expert] * (len(own) // block)
    products = np.einsum("td,tchd->tch", x.astype(np.float64), gate_up[experts_of])
    products *= x_scale[:, None, None] * gate_up_scale[experts_of]
    gate, up = products[..., :hidden], products[..., hidden:]
    out = np.zeros((tokens + 1, chosen, hidden))
    out[:tokens] = gate / (1 + np.exp(-gate)) * up
    return {
        "x": np.concatenate((x, np.zeros((1, dim), np.float32))),
        "x_scale": np.append(x_scale, np.float32(0)), "gate_up": shuffled(gate_up),
        "gate_up_scale": gate_up_scale, "ids": np.array(ids, np.int32),
        "block_experts": np.array(block_experts, np.int32), "count": np.array([len(ids)], np.int32),
        "out": out,
    }  # fmt: skip


def topk_softmax(draw: np.random.Generator) -> Arrays:
    """The 8 largest of 128 for each of 10 tokens, and their parts of the softmax of all."""
    scores = normal(draw, (10, 128), np.float32)
    parts, _ = softmax(scores.astype(np.float64))
    experts = np.argsort(-parts, 1)[:, :8]
    kept = np.take_along_axis(parts, experts, 1)
    kept /= kept.sum(1, keepdims=True)
    return {"scores": scores, "experts": experts.astype(np.int32), "weights": kept}


def mla_decode(draw: np.random.Generator) -> Arrays:
    """16 heads of 576 against 32, 48 and 17 tokens of one latent vector, whose first 512 are v.

    The tokens stand in pages of one, in an order that the table says.
    """
    lengths = (32, 48, 17)
    q = normal(draw, (3, 16, 576), ml_dtypes.bfloat16)
    cache = normal(draw, (110, 576), ml_dtypes.bfloat16)
    table = draw.permutation(110)[: sum(lengths)].astype(np.int32)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    out, sums = np.zeros((3, 16, 512)), np.zeros((3, 16))
    for at, (first, behind) in enumerate(itertools.pairwise(starts)):
        kept = cache[table[first:behind]].astype(np.float64)
        parts, sums[at] = softmax(q[at].astype(np.float64) @ kept.T / np.sqrt(576))
        out[at] = parts @ kept[:, :512]
    return {"q": q, "cache": cache, "table": table, "starts": starts, "out": out, "lse": sums}


LAUNCHES: tuple[Callable[[np.random.Generator], Arrays], ...] = (
    fmha_fwd, fp8_gemm, moe_stage1, topk_softmax, mla_decode,
)  # fmt: skip


def write(folder: Path) -> None:
    """A folder of each launch's arrays, in *folder*."""
    for seed, launch in enumerate(LAUNCHES):
        (folder / launch.__name__).mkdir(exist_ok=True)
        for name, array in launch(np.random.default_rng(seed)).items():
            kept = array if array.dtype == np.int32 else array.astype(np.float32)
            np.save(folder / launch.__name__ / f"{name}.npy", kept)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
