"""What deploys us is read as the machines that run it would read it: settings, commands, real schemas."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from httpserver import hosting
from knowledge import serving_engine
from mcpvectordb import __version__
from mcpvectordb.kb_settings import PREFIX as KB_PREFIX
from mcpvectordb.kb_settings import KbSettings
from mcpvectordb.settings import PREFIX, Settings
from support import PATIENCE_S, environment

ROOT = Path(__file__).resolve().parents[1]
# The oldest that k3s still keeps up, and one of today.
KUBERNETES = ("1.31", "1.34")
SETTINGS = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | {
    f"{KB_PREFIX}{name.upper()}" for name in KbSettings.model_fields
}
KEYS = {"KB_API_KEY": "a-key-of-the-engine", "KB_MCP_API_KEY": "a-key-of-the-agents"}
USER = "10001:10001"


def manifests() -> dict[str, Any]:
    text = (ROOT / "deploy" / "k3s.yaml").read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def compose() -> dict[str, Any]:
    """The services, with the environment's keys put in as Docker does it."""
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")

    def value(match: re.Match[str]) -> str:
        return KEYS.get(match[1]) or (match[3] if match[2] == ":-" else "")

    found = yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, text))
    return found["services"]


def container() -> dict[str, Any]:
    (found,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def is_ours(name: str) -> bool:
    return name.startswith((PREFIX, KB_PREFIX))


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "Deployment", "Service"])
def test_the_manifests_keep_to_the_schema_of_kubernetes(version: str, kind: str) -> None:
    kubernetes_validate.validate(manifests()[kind], version, strict=True)


def test_a_manifest_with_a_misspelt_field_would_be_refused() -> None:
    deployment = manifests()["Deployment"]
    deployment["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES[0], strict=True)


def test_the_deployment_has_probes_a_volume_a_secret_and_limits() -> None:
    one = container()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert one[probe]["httpGet"] == {"path": "/health", "port": "http"}
    env = {entry["name"]: entry for entry in one["env"]}
    assert env["MCPVECTORDB_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "token"
    assert one["resources"]["limits"]["memory"] and one["resources"]["requests"]["cpu"]
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    claims = {v["name"]: v.get("persistentVolumeClaim", {}).get("claimName") for v in pod["volumes"]}
    mounted = {mount["mountPath"]: claims[mount["name"]] for mount in one["volumeMounts"]}
    assert (
        mounted[env["MCPVECTORDB_HOME"]["value"]] == manifests()["PersistentVolumeClaim"]["metadata"]["name"]
    )
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == USER
    assert pod["securityContext"]["runAsNonRoot"] and one["securityContext"]["readOnlyRootFilesystem"]


def test_kubernetes_adds_no_variables_that_would_stop_the_start() -> None:
    """It makes MCPVECTORDB_PORT and others of a Service of that name, which are no settings of ours."""
    assert manifests()["Service"]["metadata"]["name"] == "mcpvectordb"
    assert manifests()["Deployment"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_the_deployments_ports_and_versions_are_those_of_the_program() -> None:
    one = container()
    assert one["image"].endswith(f":{__version__}")
    (port,) = one["ports"]
    assert one["args"] == ["serve", "--host", "0.0.0.0", "--port", str(port["containerPort"])]
    (exposed,) = manifests()["Service"]["spec"]["ports"]
    assert exposed["targetPort"] == port["name"]


def test_every_setting_of_the_deployment_files_is_one() -> None:
    named = {entry["name"] for entry in container()["env"]}
    for service in compose().values():
        named |= set(service["environment"])
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    named |= set(re.findall(r"\b((?:MCPVECTORDB|KB)_[A-Z_]+)=", docker))
    assert {name for name in named if is_ours(name)} <= SETTINGS


def test_the_image_runs_as_a_user_of_its_own() -> None:
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"USER {USER}" in docker
    assert docker.index("USER ") < docker.index("ENTRYPOINT")
    for service in compose().values():
        assert service["user"] == USER
        assert service["read_only"] and service["cap_drop"] == ["ALL"]


def test_the_image_takes_in_what_it_needs_and_nothing_else() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.M)
    wanted = {name.removeprefix("./") for line in copied for name in line.split()}
    assert ignored[0] == "*"
    assert wanted == {name.removeprefix("!") for name in ignored if name.startswith("!")}
    assert all((ROOT / name).exists() for name in wanted)


def test_the_gateway_of_the_compose_file_calls_its_engine_by_a_name_the_engine_answers_to(
    tmp_path: Path,
) -> None:
    engine, gateway = compose()["engine"], compose()["gateway"]
    url = gateway["environment"]["KB_ENGINE_URL"]
    assert url == "http://engine:8000"
    assert engine["environment"]["KB_API_KEY"] == gateway["environment"]["KB_API_KEY"] == KEYS["KB_API_KEY"]
    settings = {name: str(value) for name, value in engine["environment"].items()}
    settings["MCPVECTORDB_MODEL"] = "minilm"  # what is `auto` there goes to the hub
    with serving_engine(tmp_path / "database", **settings) as server:
        headers = {"Host": url.removeprefix("http://"), "Authorization": f"Bearer {KEYS['KB_API_KEY']}"}
        assert server.request("GET", "/api/v1/status", headers).status == 200


@pytest.mark.parametrize("name", ["engine", "gateway"])
def test_a_service_of_the_compose_file_starts_and_its_health_check_passes(tmp_path: Path, name: str) -> None:
    service = compose()[name]
    command = [part if part != "0.0.0.0" else "127.0.0.1" for part in service["command"]]
    command[command.index("--port") + 1] = "0"
    settings = {key: str(value) for key, value in service["environment"].items()}
    env = environment(tmp_path, **{**settings, "KB_STAGING": str(tmp_path / "staging")})
    with hosting([sys.executable, "-m", "mcpvectordb", *command], env) as server:
        kind, python, flag, code = service["healthcheck"]["test"]
        assert (kind, python, flag) == ("CMD", "python", "-c")
        assert f":{service['command'][-1]}/health" in code
        here = code.replace(f":{service['command'][-1]}/", f":{server.port}/")
        subprocess.run([sys.executable, "-c", here], check=True, timeout=PATIENCE_S, env=os.environ)


def test_the_compose_file_does_not_start_without_keys() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == {"KB_API_KEY", "KB_MCP_API_KEY"}
    assert "ports" not in compose()["engine"]
    assert compose()["gateway"]["ports"] == ["127.0.0.1:8001:8001"]
