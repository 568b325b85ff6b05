"""The adapter speaks the protocol of the public harness: descriptor, samples, and a graceful end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = [sys.executable, "-m", "benchmarks.harness_adapter"]
METRICS = {"claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate", "queue_depth"}


def test_adapter_emits_descriptor_and_samples_until_sigterm(module_database: str) -> None:
    variables = {"SCENARIO": "long_horizon", "PRODUCER_RATE": "40", "WORKER_COUNT": "1", "SAMPLE_EVERY_S": "0.5"}
    manifest = json.loads((ROOT / "benchmarks" / "harness_adapter.json").read_text())
    with subprocess.Popen(
        ADAPTER, cwd=ROOT, env=os.environ | variables | {"DATABASE_URL": module_database}, stdout=subprocess.PIPE
    ) as adapter:
        assert adapter.stdout is not None
        descriptor = json.loads(adapter.stdout.readline())
        samples: list[dict[str, Any]] = []
        while not any(sample["metric"] == "completion_rate" and sample["value"] > 0 for sample in samples):
            samples.append(json.loads(adapter.stdout.readline()))
        adapter.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in adapter.stdout]
        assert adapter.wait(20) == 0
    assert (descriptor["kind"], descriptor["system"], manifest["system"]) == ("descriptor", "turno", "turno")
    assert set(descriptor["event_tables"]) > set(manifest["event_tables"])
    samples += rest
    assert {sample["metric"] for sample in samples} == METRICS
    assert len(samples) % len(METRICS) == 0
    assert max(sample["value"] for sample in samples if sample["metric"] == "enqueue_rate") > 0
    assert max(sample["value"] for sample in samples if sample["metric"] == "claim_p99_ms") > 0
    assert {sample["window_s"] for sample in samples if sample["metric"] == "queue_depth"} == {0}
