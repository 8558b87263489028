"""The performance profile of a run: the seed's layout, plus what each request experienced.

All times are wall-clock times around synchronised stages. ``pruned_tokens`` are counted apart
from reused ones, and only computed tokens count towards prefill tokens per second.
"""

from __future__ import annotations

import resource
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .response import FinishReason, Response
from .scheduler import DecodeTotals
from .timing import percentile

_STAGES = ("media", "vision", "prune", "prefill")


def build_profile(
    responses: Sequence[Response],
    decode: DecodeTotals,
    total_ms: float,
    routing: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Summarise a run as a JSON-able dictionary.

    Args:
        responses: outcomes of the measured requests; failed ones count only as failed.
        decode: the decode steps of this run.
        total_ms: wall-clock time of the whole run, image decoding included.
        routing: what control of experts did, see :mod:`.expert_routing`.
    """
    answered = [r for r in responses if r.finish_reason is not FinishReason.ERROR]
    generated = sum(len(r.token_ids) for r in answered)
    reports = [r.report for r in answered if r.report is not None]
    spans = [r.report.visual_tokens_before for r in answered if r.report is not None]
    return {
        "requests": {"total": len(responses), "failed": len(responses) - len(answered)},
        "prefill": _prefill(
            answered, sum(r.visual_tokens_before - r.visual_tokens_after for r in reports)
        ),
        "generation": {
            "total_runs": decode.steps,
            "generated_tokens": decode.tokens,
            "average_tokens_per_run": _ratio(decode.tokens, decode.steps),
            "tokens_per_second": _ratio(1e3 * decode.tokens, decode.time_ms),
            "average_time_per_token_ms": _ratio(decode.time_ms, decode.tokens),
        },
        "multimodal": _multimodal(answered, sum(spans)),
        "latency": _latency(answered),
        "stages": [_stage(name, answered) for name in _STAGES],
        **_memory(),
        **({"expert_routing": routing} if routing else {}),
        "wall_clock": {
            "tp_size": 1,
            "generated_tokens": generated,
            "total_time_ms": total_ms,
            "tokens_per_second": _ratio(1e3 * generated, total_ms),
            "ms_per_token": _ratio(total_ms, generated),
        },
    }


def format_profile(profile: dict[str, Any]) -> str:
    """The profile as the text block that ``--dumpProfile`` prints."""
    prefill, generation = profile["prefill"], profile["generation"]
    multimodal, latency, wall = profile["multimodal"], profile["latency"], profile["wall_clock"]
    lines = ["=== Performance Summary ===", "", "=== LLM Prefill ==="]
    lines += [
        f"Reused Tokens: {prefill['reused_tokens']}",
        f"Computed Tokens: {prefill['computed_tokens']}",
    ]
    if prefill["pruned_tokens"]:
        lines.append(f"Pruned Tokens (visual-token pruning): {prefill['pruned_tokens']}")
    lines += [
        f"Average Tokens per Run: {prefill['average_tokens_per_run']:.1f}",
        f"Average Time per Run: {prefill['average_time_per_run_ms']:.3f} ms",
        f"Tokens/Second: {prefill['tokens_per_second']:.1f}",
        f"Average Time per Token: {prefill['average_time_per_token_ms']:.4f} ms",
        "",
        "=== LLM Generation (Excluding sampling after prefill) ===",
        f"Total Runs: {generation['total_runs']}",
        f"Generated Tokens: {generation['generated_tokens']}",
        f"Average Tokens per Run: {generation['average_tokens_per_run']:.2f}",
        f"Tokens/Second: {generation['tokens_per_second']:.1f}",
        f"Average Time per Token: {generation['average_time_per_token_ms']:.3f} ms",
        "",
        "=== Multimodal Processing ===",
        f"Total Images: {multimodal['total_images']}",
        f"Total Image Tokens: {multimodal['total_image_tokens']}",
        f"Image Decode: {multimodal['image_decode_time_ms']:.3f} ms",
        f"Image Decode, Preprocessing and Prompt: {multimodal['media_time_ms']:.3f} ms",
        f"Vision Engine: {multimodal['vision_time_ms']:.3f} ms",
        "",
        "=== Latency per Request (ms) ===",
    ]
    for name, values in latency.items():
        shown = "  ".join(f"{key} {_show(value)}" for key, value in values.items())
        lines.append(f"{name}: {shown}")
    lines += _routing_lines(profile.get("expert_routing", {}))
    lines += [
        "",
        "=== Memory Usage ===",
        f"Peak CPU Memory: {profile['peak_cpu_memory_mb']:.1f} MB",
    ]
    if profile["peak_gpu_memory_bytes"]:
        lines.append(f"Peak GPU Memory: {profile['peak_gpu_memory_mb']:.1f} MB")
    lines += [
        "",
        "=== Wall-Clock (end-to-end, image decoding included) ===",
        f"TP Size: {wall['tp_size']}",
        f"Total Generated Tokens: {wall['generated_tokens']}",
        f"Total Wall-Clock Time: {wall['total_time_ms']:.1f} ms",
        f"Wall-Clock Tokens/Second: {wall['tokens_per_second']:.1f}",
        f"Wall-Clock ms/Token: {wall['ms_per_token']:.3f}",
        "=====================================",
    ]
    return "\n".join(lines)


def _routing_lines(routing: dict[str, Any]) -> list[str]:
    lines = ["", "=== Expert Routing ==="] if routing else []
    if sere := routing.get("sere"):
        lines.append(
            f"SERE: {sere['mean_active_before']:.1f} -> {sere['mean_active_after']:.1f} experts"
            f" active per layer, mean of {sere['decode_steps']} decode steps"
        )
    if macs := routing.get("macs"):
        lines.append(f"MACS (reconstruction), per layer, mean of {macs['prompts']} prompts:")
        for place, layer in enumerate(macs["layers"]):
            lines.append(
                f"  {place}: largest load {layer['raw_before']:.1f} -> {layer['raw_after']:.1f}"
                f" tokens ({layer['raw_imbalance_before']:.2f} ->"
                f" {layer['raw_imbalance_after']:.2f} x mean), effective"
                f" {layer['effective_before']:.1f} -> {layer['effective_after']:.1f}, capacity"
                f" {layer['capacity_least']:.1f} to {layer['capacity_most']:.1f}, re-routed"
                f" {layer['rerouted']:.1f}, dropped {layer['dropped_visual']:.1f} visual"
                f" {layer['dropped_text']:.1f} text"
            )
    return lines


def _prefill(answered: Sequence[Response], pruned: int) -> dict[str, Any]:
    runs, computed = len(answered), sum(r.prompt_tokens for r in answered)
    time_ms = sum(r.timing.prefill_ms for r in answered)
    return {
        "total_runs": runs,
        "reused_tokens": 0,
        "computed_tokens": computed,
        "pruned_tokens": pruned,
        "average_tokens_per_run": _ratio(computed, runs),
        "average_time_per_run_ms": _ratio(time_ms, runs),
        "tokens_per_second": _ratio(1e3 * computed, time_ms),
        "average_time_per_token_ms": _ratio(time_ms, computed),
    }


def _multimodal(answered: Sequence[Response], tokens: int) -> dict[str, Any]:
    vision_ms = sum(r.timing.vision_ms for r in answered)
    return {
        "total_images": sum(r.media_count for r in answered),
        "total_image_tokens": tokens,
        "total_audios": 0,
        "total_audio_tokens": 0,
        "total_multimodal_tokens": tokens,
        "average_time_per_token_ms": _ratio(vision_ms, tokens),
        "image_decode_time_ms": sum(r.timing.image_decode_ms for r in answered),
        "media_time_ms": sum(r.timing.media_ms for r in answered),
        "vision_time_ms": vision_ms,
    }


def _latency(answered: Sequence[Response]) -> dict[str, dict[str, float | None]]:
    gaps = [gap for r in answered for gap in r.timing.gaps_ms]
    return {
        "ttft": _spread(r.timing.ttft_ms for r in answered),
        "tpot": _spread(r.timing.tpot_ms for r in answered),
        "inter_token": _spread(gaps),
        "queue": _spread(r.timing.queue_ms for r in answered),
    }


def _stage(name: str, answered: Sequence[Response]) -> dict[str, Any]:
    times = [float(getattr(r.timing, f"{name}_ms")) for r in answered]
    return {
        "stage_id": name,
        "total_runs": len(times),
        "total_gpu_time_ms": sum(times),
        "average_time_per_run_ms": _ratio(sum(times), len(times)),
        "gpu_time_stats": {
            "clock": "wall, device synchronised",
            "count": len(times),
            "min_ms": min(times, default=0.0),
            "max_ms": max(times, default=0.0),
            "mean_ms": statistics.fmean(times) if times else 0.0,
            "median_ms": statistics.median(times) if times else 0.0,
            "p95_ms": percentile(times, 95) or 0.0,
            "p99_ms": percentile(times, 99) or 0.0,
            "stddev_ms": statistics.pstdev(times) if times else 0.0,
        },
    }


def _memory() -> dict[str, Any]:
    unit = 1 if sys.platform == "darwin" else 1024
    cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {
        "peak_gpu_memory_bytes": gpu,
        "peak_gpu_memory_mb": gpu / 2**20,
        "peak_cpu_memory_bytes": cpu,
        "peak_cpu_memory_mb": cpu / 2**20,
        "gpu_memory_metric": "torch allocator peak" if gpu else "none",
    }


def _spread(values: Iterable[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        **{f"p{p}": percentile(known, p) for p in (50, 95, 99)},
    }


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
