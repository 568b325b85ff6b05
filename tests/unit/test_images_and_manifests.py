"""deploy/container and deploy/kubernetes name commands, settings, ports, paths and metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from turno.commands.main import main
from turno.settings import PREFIX, Settings
from turno.web.api.health import health

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIVE, READY = (health.operations[name].rule for name in ("healthz", "readyz"))
ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "deploy" / "container"
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml"))
SETTINGS = {PREFIX + name.upper() for name in Settings.__dataclass_fields__} | {"DATABASE_URL", "QUEUE_BACKEND"}
NOT_OURS = {"PATH", "PYTHONDONTWRITEBYTECODE"}
DOCKERFILE = (CONTAINER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
COMPOSE = yaml.safe_load((CONTAINER / "compose.yml").read_text(encoding="utf-8"))["services"]
OURS = {name: service for name, service in COMPOSE.items() if service["image"] == "turno"}
# Files of the deployer; none of them may be committed.
BROUGHT = ("turno.env", "provisioner.env", "rabbitmq.env", "postgres_password", "tls/")
KUBERNETES = "1.37"
GRACE = Settings().shutdown_grace_seconds


def check_command(words: list[str]) -> None:
    """Raise click's error unless `turno` has this command with these options and as many arguments."""
    context = click.Context(main)
    command: click.Command | None = main
    words = [*words]
    while isinstance(command, click.Group):
        command = command.get_command(context, words[0])
        assert command is not None, words
        words.pop(0)
    assert command is not None
    command.make_parser(click.Context(command)).parse_args(words)


def run_lines(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} (.*)$", DOCKERFILE.rpartition("\nFROM ")[2], re.MULTILINE)


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    return dict(pair.split("=", 1) for line in run_lines("ENV") for pair in line.split())


def test_image_runs_as_nobody_with_its_copied_files() -> None:
    ignored = (CONTAINER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*"
    copied = [line.split()[:-1] for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)]
    for name in {name for names in copied for name in names}:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    assert run_lines("USER") == ["10001:10001"]
    assert run_lines("ENTRYPOINT") == ['["turno"]']
    check_command(json.loads(run_lines("CMD")[0]))
    assert image_environment().keys() - SETTINGS == NOT_OURS
    Settings.read({name: value for name, value in image_environment().items() if name in SETTINGS})


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_confined_and_has_time_to_stop(name: str) -> None:
    service = OURS[name]
    check_command(service["command"])
    assert service["environment"].keys() <= SETTINGS
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    # Its first process would keep the secrets where every process of the same user can read them.
    assert "init" not in service
    assert float(service["stop_grace_period"].removesuffix("s")) >= GRACE + 10
    if "healthcheck" in service and service["healthcheck"]["test"][1] == "turno":
        check_command(service["healthcheck"]["test"][2:])


def test_provisioner_is_known_only_where_roles_are_made() -> None:
    assert [name for name, service in COMPOSE.items() if "provisioner.env" in service.get("env_file", [])] == [
        "migrate"
    ]
    provisioned = {pod["containers"][0]["name"] for _, pod in pods() if "turno-provisioner" in str(pod)}
    assert provisioned == {"migrate", "check-rights"}


def test_nginx_and_the_probe_find_the_web_where_it_listens() -> None:
    web = COMPOSE["web"]
    listens = web["environment"]["TURNO_WEB_BIND"]
    assert f"server {listens};" in (ROOT / "deploy" / "nginx" / "turno.conf").read_text(encoding="utf-8")
    assert f"http://{listens}{ALIVE}" in web["healthcheck"]["test"][-1]
    assert COMPOSE["proxy"]["network_mode"] == "service:web"


def test_compose_mounts_existing_or_uncommitted_files() -> None:
    ignored = (CONTAINER / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert ignored == ["*.env", "postgres_password", "tls/"]
    text = (CONTAINER / "compose.yml").read_text(encoding="utf-8")
    mounted = re.findall(r"(?<![\w/])(\.\.?/[\w./-]+)", text)
    assert len(mounted) > 4
    for name in mounted:
        brought = name.removeprefix("./").startswith(BROUGHT)
        assert brought or (CONTAINER / name).exists(), name


def objects() -> Iterator[dict[str, Any]]:
    for file in MANIFESTS:
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each described pod, by the name of its controller."""
    for manifest in objects():
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield manifest["metadata"]["name"], spec["template"]["spec"]


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=[name for name, _ in pods()])
def test_a_pod_runs_a_command_that_exists_confined_and_is_probed(name: str, pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    check_command(container["args"])
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == run_lines("USER")[0]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == confined
    assert "memory" in container["resources"]["limits"]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    if name in {manifest["metadata"]["name"] for manifest in objects() if manifest["kind"] == "Deployment"}:
        assert pod["terminationGracePeriodSeconds"] >= GRACE + 10
        assert {"startupProbe", "livenessProbe"} <= container.keys()
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container.get(kind, {})
        if "exec" in probe:
            assert probe["exec"]["command"][0] == "turno"
            check_command(probe["exec"]["command"][1:])
            assert Path(image_environment()["TURNO_ALIVE_FILE"]).parent == Path("/run/turno")
            assert {"name": "run", "mountPath": "/run/turno"} in container["volumeMounts"]
        elif probe:
            # Liveness does not depend on the database.
            rule = READY if kind == "readinessProbe" else ALIVE
            assert probe["httpGet"] == {"path": rule, "port": "http"}
            port = container["ports"][0]
            assert port["name"] == "http"
            assert image_environment()["TURNO_WEB_BIND"].endswith(f":{port['containerPort']}")


def test_settings_and_secrets_of_the_cluster_exist() -> None:
    (kustomization,) = [manifest for manifest in objects() if "configMapGenerator" in manifest]
    (generated,) = kustomization["configMapGenerator"]
    variables = dict(line.split("=", 1) for line in generated["literals"])
    assert variables.keys() <= SETTINGS
    Settings.read(variables)
    named = {ref[kind]["name"] for _, pod in pods() for ref in pod["containers"][0]["envFrom"] for kind in ref}
    assert named == {generated["name"], "turno-provisioner", "turno-rabbitmq", "turno-rabbitmq-setup"}
    assert not any(manifest["kind"] == "Secret" for manifest in objects())


def test_selectors_find_their_objects() -> None:
    labels = {}
    for manifest in objects():
        if manifest["kind"] == "Deployment":
            labels[manifest["metadata"]["name"]] = manifest["spec"]["template"]["metadata"]["labels"]
            assert manifest["spec"]["selector"]["matchLabels"] == labels[manifest["metadata"]["name"]]
    for manifest in objects():
        name = manifest["metadata"]["name"] if "metadata" in manifest else ""
        if manifest["kind"] == "RabbitmqCluster":
            labels[name] = {"app.kubernetes.io/name": name}  # set by the operator
        if manifest["kind"] == "PodDisruptionBudget":
            assert manifest["spec"]["selector"]["matchLabels"] == labels[name]
        if manifest["kind"] == "Service":
            assert manifest["spec"]["selector"] == labels[name]
        if manifest["kind"] == "ScaledObject":
            assert manifest["spec"]["scaleTargetRef"]["name"] in labels


def scalers() -> Iterator[tuple[str, str]]:
    """The query of each scaler, and the queue that its workers serve."""
    queues = {name: pod["containers"][0]["args"][-1] for name, pod in pods() if name.startswith("pool")}
    result = [manifest for manifest in objects() if manifest["kind"] == "ScaledObject"]
    assert len(result) == len(queues) == 2
    for scaler in result:
        (trigger,) = scaler["spec"]["triggers"]
        yield trigger["metadata"]["query"], queues[scaler["metadata"]["name"]]


def test_scaler_reads_oldest_wait_of_its_queue() -> None:
    reply = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert "`turno_oldest_wait_seconds{backend,queue,type}`" in reply
    for query, queue in scalers():
        assert query == f'max(turno_oldest_wait_seconds{{backend="pool",queue="{queue}"}}) or vector(0)'


def test_prometheus_answers_a_scaler(promtool: Path, tmp_path: Path) -> None:
    for query, queue in scalers():
        assert evaluated(promtool, tmp_path, query, queue) == ""


def evaluated(promtool: Path, folder: Path, query: str, queue: str) -> str:
    """Prometheus's answer to the query: the oldest of the queue's waits, and 0 without waits."""
    series = [
        {"series": f'turno_oldest_wait_seconds{{backend="pool",queue="{name}",type="{kind}"}}', "values": values}
        for name, kind, values in ((queue, "a", "_ 12"), (queue, "b", "_ 40"), ("other", "c", "_ 90"))
    ]
    expected = [
        {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
        for at, value in (("0m", 0), ("1m", 40))
    ]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": expected}]
    (folder / "scaler.yml").write_text(json.dumps({"tests": tests}), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", folder / "scaler.yml"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.deep
def test_kubernetes_knows_every_kind_and_field() -> None:
    import kubernetes_validate  # noqa: PLC0415 - of the group deep

    ours = [
        manifest
        for manifest in objects()
        if manifest["apiVersion"].partition("/")[0] not in {"kustomize.config.k8s.io", "keda.sh", "rabbitmq.com"}
    ]
    assert {known["kind"] for known in ours} > {"Deployment", "CronJob", "Job", "Ingress", "NetworkPolicy"}
    for known in ours:
        kubernetes_validate.validate(known, KUBERNETES, strict=True)


def test_broker_of_the_cluster_is_configured_as_on_hosts() -> None:
    (broker,) = [manifest for manifest in objects() if manifest["kind"] == "RabbitmqCluster"]
    ours = broker["spec"]["rabbitmq"]["additionalConfig"].splitlines()
    hosts = (ROOT / "deploy" / "rabbitmq" / "rabbitmq.conf").read_text(encoding="utf-8").splitlines()
    assert set(ours) == {line for line in hosts if line.startswith(("cluster_", "disk_", "heartbeat"))}
    assert broker["spec"]["tls"]["disableNonTLSListeners"]
    labels = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in objects()
        if "template" in manifest.get("spec", {})
    }
    (policy,) = [manifest for manifest in objects() if manifest["kind"] == "NetworkPolicy" and "5671" in str(manifest)
                 and manifest["spec"]["policyTypes"] == ["Ingress"]]  # fmt: skip
    assert policy["spec"]["ingress"][0]["from"] == [{"podSelector": {"matchLabels": labels["consumer"]}}]
    assert labels["create-queues"] == labels["consumer"]


def test_kustomization_takes_every_file_and_patches_objects() -> None:
    known = {manifest["metadata"]["name"]: manifest for manifest in objects() if manifest["kind"] == "Deployment"}
    for file in (path for path in MANIFESTS if path.name == "kustomization.yaml"):
        reply = yaml.safe_load(file.read_text(encoding="utf-8"))
        files = {path.name for path in file.parent.glob("*.yaml")} - {file.name}
        assert files == {name for name in reply["resources"] if name.endswith(".yaml")}
        assert all((file.parent / name).exists() for name in reply["resources"])
        for patch in reply.get("patches", []):
            changed = [deployment for name, deployment in known.items() if re.fullmatch(patch["target"]["name"], name)]
            (operation,) = yaml.safe_load(patch["patch"])
            assert operation == {"op": "remove", "path": "/spec/replicas"}
            assert len(changed) == 2
            assert all("replicas" in deployment["spec"] for deployment in changed)
    (base,) = [manifest for manifest in objects() if "images" in manifest]
    assert {pod["containers"][0]["image"] for _, pod in pods()} == {image["name"] for image in base["images"]}
