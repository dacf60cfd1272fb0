"""What the guide to TAC-RL names."""

from tests.integration.mission_row import Row


def _answered(says: str, typed: str, sees: str) -> Row:
    return Row(says=says, typed=typed, sees=sees, is_answered=True)


ROWS = [
    Row(says="175 tasks", file="docs/agent-company.md", sees="175"),
    Row(
        says="8 domains",
        python="""
            from practicum.api import open_environment
            from practicum.core.config.config_sections import EnvConfig
            office = open_environment(EnvConfig(name="office", level=[1, 2, 3, 4]))
            from itertools import islice
            print(len({task.data["domain"] for task in islice(office.tasks("train", 0), 400)}) >= 8)
        """,
        sees="True",
    ),
    Row(
        says="GitLab, Plane, RocketChat",
        python="""
            from practicum_envs.office.office_environment import OfficeOptions
            print(OfficeOptions(services=["gitlab", "plane", "rocketchat", "owncloud"]).services)
        """,
        sees="'gitlab', 'plane', 'rocketchat', 'owncloud'",
    ),
    _answered("the benchmark by its short name", "tasks tac", "did you mean 'agent_company'"),
    _answered(
        "the benchmark's tasks",
        "tasks agent_company",
        "git clone https://github.com/TheAgentCompany/TheAgentCompany, .* --repo",
    ),
    _answered(
        "training on the benchmark", "train agent_company model=tiny", "train with env: office"
    ),
    Row(
        says="the benchmark's real servers",
        file="docs/agent-company.md",
        sees="tried with the benchmark's own servers",
        fails="env.server_hostname names them, and they were not at hand to try it",
    ),
    Row(
        says="task sampling by domain",
        typed="tasks office env.level=2 env.domains=[finance]",
        sees="office-train-",
    ),
    _answered(
        "a domain with no task of that level",
        "tasks office env.domains=[finance]",
        "there are some at level 2, 4: write env.level=2",
    ),
    _answered(
        "the same, trained",
        "train office model=tiny env.domains=[finance]",
        "write env.level=2",
    ),
    _answered("a domain that is none", "tasks office env.domains=[nosuch]", "there are admin, "),
    Row(
        says="reward computation",
        typed="train office model=tiny --dry-run",
        sees="reward agent_company",
    ),
    Row(says="evaluation", typed="eval runs/first --n 4", sees=r"success .* 4 "),
    Row(
        says="evaluation against the base model",
        typed="eval runs/first --n 4 --against base",
        sees="No difference in success is shown|difference",
    ),
    Row(
        says="agent execution",
        typed="play math --policy runs/first --task '3x + 7 = 16'",
        sees=r"total reward -?[\d.]+",
    ),
    Row(
        says="trajectory collection",
        typed="traces show train/2/0/0/math-1-8x-5=75/2 --store runs/first/traces.sqlite",
        sees="8x - 5 = 75",
    ),
    Row(
        says="multi-service integration",
        typed="tasks office env.level=4",
        sees="office-train-.* 4 ",
    ),
    Row(says="GRPO optimization", shell="cat runs/first/metrics.jsonl", sees='"loss"'),
    Row(says="model updates", shell="cat runs/first/metrics.jsonl", sees='"gradient_norm"|grad'),
    Row(
        says="checkpointing",
        shell="ls runs/first/checkpoints/step_2",
        sees=r"adapter_config.json .*adapter_model.safetensors",
    ),
    Row(says="./setup.sh", shell="MAKEFLAGS=n ./setup.sh", sees="practicum doctor"),
    Row(
        says="python train.py --config configs/qwen_2_5_7b.yaml",
        typed="train.py --config configs/qwen_2_5_7b.yaml model=tiny --dry-run",
        sees=r"qwen_2_5_7b.yaml is configs/office_qwen2.5_7b.yaml here",
    ),
    _answered(
        "configs/qwen_2_5_7b.yaml, by position",
        "train configs/qwen_2_5_7b.yaml",
        "here it is configs/office_qwen2.5_7b.yaml",
    ),
    _answered(
        "train.py --resume",
        "train.py --config configs/tiny.yaml --resume",
        "type: practicum train --resume latest",
    ),
    Row(says="train.py --resume RUN", typed="train --resume latest", sees="is done"),
    Row(
        says="train.py --validate-only",
        typed="train --config configs/tiny.yaml --validate-only",
        sees="fits: needs",
    ),
    _answered(
        "train.py --create-config",
        "train --create-config",
        "type: practicum train math --dry-run .prints a whole config",
    ),
    _answered("train.py --model", "train math --model tiny", "type model=tiny"),
    Row(
        says="python monitor.py --run-id latest",
        typed="monitor.py --run-id latest --once",
        sees="latest episode",
    ),
    Row(says="monitor.py --watch", typed="monitor --watch --once", sees="latest episode"),
    Row(
        says="monitor.py --logs-dir",
        typed="monitor --logs-dir runs --once",
        sees="--logs-dir runs is --runs-dir runs here",
    ),
    _answered("monitor.py --list", "monitor --list", "type: practicum runs"),
    _answered(
        "monitor.py --generate-report", "monitor --generate-report", "type: practicum report RUN"
    ),
    _answered(
        "monitor.py --report-output",
        "monitor --report-output report.txt",
        "type: practicum report RUN",
    ),
    _answered("monitor.py --visualize", "monitor --visualize", "type: practicum report RUN"),
    Row(says="what monitor.py --list shows", typed="runs", sees="first math tiny"),
    Row(says="what monitor.py --generate-report shows", typed="runs latest", sees="── checkpoints"),
    Row(
        says="detailed logging",
        shell="cat runs/first/metrics.jsonl",
        sees='"success".*"reward"|"reward".*"success"',
    ),
    Row(
        says="modular design",
        file="tests/architecture/test_layers.py",
        sees="MAY_IMPORT",
    ),
    Row(
        says="20-40 % improvement on the benchmark",
        file="docs/agent-company.md",
        sees=r"improve\w* (of|by) \d\d %",
        fails="no model has been trained and measured on the benchmark yet",
    ),
    Row(
        says="$50-100 for a model of 7B",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device a100-80g --price 1.8",
        sees=r"cost: at most about \$\d+",
    ),
    Row(
        says="2-5 days",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device a100-80g --price 1.8",
        sees=r"time: at most about [\d.]+ (hours|days) for 150 steps",
    ),
]
