"""A toy run: it learns, survives bad gradients, resumes exactly and exports a real checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgevlm.accuracy.tiny.buckets import BUCKETS
from edgevlm.accuracy.tiny.checkpoint import join_shards, read_weights
from tiny_training.chunks import ChunkMaker
from tiny_training.evaluate import Evaluator
from tiny_training.feeder import CHUNK_PROMPTS, Feeder
from tiny_training.options import parse_options
from tiny_training.pool import Pool
from tiny_training.schedule import RateSchedule, Stage, average_rate
from tiny_training.session import Session, build_session
from tiny_training.state import (
    Progress,
    export,
    load_exported,
    load_state,
    read_progress,
    save_state,
)
from tiny_training.step import BucketStep

QUESTIONS = 2


def _session(precision: str = "fp32", seed: int = 1) -> Session:
    arguments = f"--work unused --precision {precision} --patches 256 --questions {QUESTIONS}"
    return build_session(parse_options([*arguments.split(), "--seed", str(seed), "--device=cpu"]))


def _step(session: Session, prompts: int = 1) -> BucketStep:
    bucket = BUCKETS["s256"]
    pool = Pool(bucket, QUESTIONS, prompts, "cpu")
    pool.add(ChunkMaker(QUESTIONS, 1, "train").make(bucket, 0, prompts))
    return BucketStep(session.engine, session.layout("s256"), pool)


def _same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "autocast"])
def test_loss_falls_on_one_prompt(precision: str) -> None:
    session = _session(precision)
    step = _step(session)
    session.trainee.rate.fill_(1e-3)
    step()
    first, _, _ = step.take()
    for _ in range(12):
        step()
    step.take()
    step()
    last, norm, count = step.take()
    assert count == 1
    assert norm > 0
    assert last < first / 2


def test_held_and_broken_steps_change_nothing() -> None:
    session = _session()
    trainee, step = session.trainee, _step(session)
    trainee.rate.fill_(1e-3)
    trainee.average_rate.fill_(0.5)
    step()
    before = {k: v.clone() for k, v in trainee.network.state_dict().items()}
    trainee.hold.fill_(1)
    step()
    trainee.hold.fill_(0)
    assert _same(before, trainee.network.state_dict())
    for parameter in trainee.network.parameters():
        parameter.grad = torch.full_like(parameter, float("nan"))
    trainee.update()
    assert _same(before, trainee.network.state_dict())
    assert trainee.skipped == 1
    assert all(torch.isfinite(p).all() for p in trainee.average.parameters())
    assert all(state["step"] == 1 for state in trainee.optimizer.state.values())


def test_resumed_run_goes_on_exactly(tmp_path: Path) -> None:
    session = _session()
    step = _step(session)
    session.trainee.rate.fill_(1e-3)
    session.trainee.average_rate.fill_(0.1)
    for _ in range(2):
        step()
    save_state(tmp_path, session.trainee, Progress(2, 5, 1.5))
    assert read_progress(tmp_path) == Progress(2, 5, 1.5)

    resumed = _session(seed=2)
    assert load_state(tmp_path, resumed.trainee) == Progress(2, 5, 1.5)
    resumed.trainee.rate.fill_(1e-3)
    resumed.trainee.average_rate.fill_(0.1)
    other = _step(resumed)
    for either in (step, other):
        torch.manual_seed(7)
        either()
    assert _same(session.trainee.network.state_dict(), resumed.trainee.network.state_dict())
    assert _same(session.trainee.average.state_dict(), resumed.trainee.average.state_dict())


def test_export_opens_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    network = _session().trainee.network
    export(tmp_path, network, shard_bytes=8 << 20)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    sharded = read_weights(tmp_path)
    join_shards(tmp_path)
    assert _same(sharded, read_weights(tmp_path))
    assert sum(f.stat().st_size for f in tmp_path.iterdir()) < 20_000_000
    model = transformers.Qwen3VLForConditionalGeneration.from_pretrained(tmp_path)
    table = network.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, table.half())

    other = _session(seed=3)
    load_exported(tmp_path, other.trainee)
    torch.testing.assert_close(other.trainee.network.embed_tokens.weight, table, atol=1e-3, rtol=0)


def test_evaluation_reports_every_task_of_a_bucket() -> None:
    session = _session()
    evaluator = Evaluator(
        [session.layout("m2")],
        session.tables,
        prompts=8,
        batch_patches=2048,
        device=session.device,
    )
    scores = evaluator.score(session.trainee.average)
    assert set(scores) == {"m2"}
    assert set(scores["m2"]) <= {task for task, _ in BUCKETS["m2"].tasks}
    assert all(0 <= value <= 1 for value in scores["m2"].values())


def test_feeder_delivers_the_promised_chunks() -> None:
    with Feeder({"s256": 1}, questions=QUESTIONS, seed=1, workers=1) as feeder:
        chunk = feeder.wait(60)
    assert chunk is not None
    direct = ChunkMaker(QUESTIONS, 1, "train").make(BUCKETS["s256"], 0, CHUNK_PROMPTS)
    for name, array in direct.arrays().items():
        assert (chunk.arrays()[name] == array).all()


def test_pool_overwrites_its_oldest_prompts() -> None:
    bucket = BUCKETS["s256"]
    maker = ChunkMaker(QUESTIONS, 1, "train")
    pool = Pool(bucket, QUESTIONS, 6, "cpu")
    for first in (0, 4, 8):
        pool.add(maker.make(bucket, first, 4))
    assert pool.size == 6
    drawn = pool.draw(32)
    assert drawn.tokens.shape == (32, QUESTIONS, bucket.branch_tokens)


def test_rate_warms_up_holds_and_decays() -> None:
    schedule = RateSchedule(peak=1.0, warm_up=10, seconds=100, decay_seconds=20)
    assert schedule.rate(0, 0) == pytest.approx(0.1)
    assert schedule.rate(50, 50) == 1.0
    assert schedule.rate(50, 90) == pytest.approx(0.5)
    assert schedule.rate(50, 200) == pytest.approx(schedule.floor)
    assert average_rate(0) == 1.0
    assert average_rate(10**6) == pytest.approx(1e-3)
    assert sorted(Stage({"a": 2, "b": 1}).order(0)) == ["a", "a", "b"]
