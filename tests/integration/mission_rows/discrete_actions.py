"""What the summary of the framework of discrete actions names."""

from tests.integration.mission_row import Row

ASKED = "Solve for x: 3x + 7 = 16"
HALF = "Qwen/Qwen2.5-0.5B-Instruct"
PLAYED = f"play math --policy reference --task '{ASKED}'"
LIGHT = f"train math model={HALF} lora=light --dry-run"

FILES = {
    "theirs/gym.py": """\
class Mine:
    problems = ["one", "two", "three", "four", "five"]

    def reset(self, problem):
        self.left = [problem]
        return problem

    def get_valid_actions(self):
        return ["analyze", "answer"]

    def step(self, action):
        is_right = action == "answer"
        return {"reward": float(is_right), "done": is_right, "success": is_right}

    def reference(self):
        return ["answer"]
""",
    "theirs/plain.py": """\
import contextlib

import practicum as pr


class Session:
    def prompt(self):
        return [pr.Message(role="user", content="press it")]

    def actions(self):
        return ["press", "wait"]

    async def act(self, text):
        return pr.Observation(
            message=pr.Message(role="user", content="on"), reward=1.0, terminated=True
        )

    async def outcome(self):
        return pr.Outcome(success=True)


class Button:
    name, all_levels = "button", (1,)

    class Options(pr.ConfigModel):
        pass

    def __init__(self, options):
        pass

    def tasks(self, split, seed):
        for number in range(20):
            yield pr.Task(id=f"{split}-{number}", env=self.name, split=split)

    @contextlib.asynccontextmanager
    async def open(self, task):
        yield Session()
""",
}

TRAINER = """
    from practicum import AgenticTrainer
    SMALL = ["hardware.threads=1", "algorithm.lr=3e-3", "rollouts.max_tokens=8"]
    trainer = AgenticTrainer("tiny", env="math", runs_dir="theirs", overrides=SMALL)
"""
TAKEN = """
    taken = ["identify_operation", "subtract_terms", "divide_terms", "state_answer"]
    rows = [{"problem": f"Solve for x: 3x + {n} = {n + 9}", "actions": taken} for n in range(1, 8)]
"""
SERVED = """
    import pathlib
    from tests.integration.serve_site import serve_process
    with serve_process(pathlib.Path.cwd(), "first=runs/first") as served, served.client() as client:
        SAID
"""


def _answered(says: str, typed: str, sees: str) -> Row:
    return Row(says=says, typed=typed, sees=sees, is_answered=True)


def _file(theirs: str, ours: str) -> Row:
    return Row(says=theirs, file="docs/coming-from.md", sees=rf"\| `{theirs}` \| `{ours}`")


def _domain(name: str, actions: str) -> Row:
    """Its page names every action, and the command that plays it."""
    named = "".join(rf"(?=[\s\S]*{action})" for action in actions.split(", "))
    return Row(
        says=f"{name}: {actions}", file=f"docs/{name}.md", sees=f"{named}practicum play {name}"
    )


def _rewards(name: str, what: str) -> Row:
    return Row(says=f"{name}: rewards of {what}", typed=f"tasks {name} --n 1", sees=f"{name}-")


def _layer(says: str, at: str) -> Row:
    return Row(says=says, python=TRAINER + at, sees="True")


ROWS = [
    Row(says="Qwen2.5-0.5B-Instruct", typed=LIGHT, sees=f"name: {HALF}"),
    Row(says="494M parameters", typed=LIGHT, sees=r"of 494,\d{3},\d{3} parameters"),
    Row(says="540K trainable", typed=LIGHT, sees="training 540,672 of"),
    Row(says="0.11 % of the parameters", typed=LIGHT, sees=r"\(0\.11%\)"),
    Row(says="LoRA: rank 8, alpha 16", typed=LIGHT, sees="r: 8 alpha: 16"),
    Row(says="LoRA: q_proj and v_proj", typed=LIGHT, sees="targets: - q_proj - v_proj start"),
    Row(
        says="about 2 GB for 0.5B",
        typed=LIGHT,
        sees=r"(about 2\.\d GiB with|fits: needs about 2\.\d GiB)",
    ),
    Row(
        says="the loss falls",
        python=TRAINER
        + TAKEN
        + """
    losses = await trainer.train(trainer.prepare_training_data(rows), steps=8, quiet=True)
    print(losses[-1] < losses[0] - 0.3, len(losses))
""",
        sees="True 8",
    ),
    Row(
        says="the model writes sequences of actions",
        python=TRAINER + f'    print(len(trainer.test_inference(["{ASKED}"])[0]["actions"]) > 1)\n',
        sees="True",
    ),
    _answered("Mac MPS", "train math model=tiny model.device=mps --dry-run", "set model.device to"),
    _answered("CUDA", "train math model=tiny model.device=cuda --dry-run", "set model.device to"),
    Row(
        says="CPU",
        typed="train math model=tiny model.device=cpu --dry-run",
        sees="resolved: device cpu",
    ),
    Row(says="Windows", file="docs/troubleshooting.md", sees="on Windows, WSL is"),
    Row(says=ASKED, typed=PLAYED, sees=r"3x \+ 7 = 16"),
    Row(says="identify_operation pays 1.5", typed=PLAYED, sees=r"identify_operation \+1\.5"),
    Row(says="subtract_terms pays 2.0", typed=PLAYED, sees=r"subtract_terms \+2\.0 3x = 9"),
    Row(says="divide_terms pays 2.0", typed=PLAYED, sees=r"divide_terms \+2\.0 x = 3"),
    Row(says="state_answer pays 3.0", typed=PLAYED, sees=r"state_answer \+3\.0 right: x = 3"),
    Row(says="8.5 in all", typed=PLAYED, sees=r"total reward 8\.5"),
    Row(
        says="the problem, to a trained model",
        typed=f"play math --policy runs/first --task '{ASKED}'",
        sees=r"total reward -?[\d.]+",
    ),
    Row(
        says="the problem, from Python",
        python=f'import practicum as pr; print(pr.play("reference", "{ASKED}", env="math").reward)',
        sees=r"8\.5",
    ),
    _file("core/environment.py", "src/practicum/core/interfaces.py"),
    _file("core/trainer.py", "src/practicum/compat/pipeline.py"),
    _file("demos/math_demo.py", "configs/demo.yaml"),
    _file("examples/custom_domain_template.py", "examples/01_own_environment.py"),
    _file("docs/domain_guide.md", "docs/domain-guide.md"),
    _file("setup.py", "pyproject.toml"),
    _file("Dockerfile", "packaging/Dockerfile"),
    Row(says="README.md", file="README.md", sees="practicum train"),
    Row(says="./quick_start.sh", shell="MAKEFLAGS=n ./quick_start.sh", sees="configs/demo.yaml"),
    Row(
        says="pip install -r requirements.txt",
        file="requirements.txt",
        sees=r"torch==[\d.]+ -e \.\[train",
    ),
    _answered("python demos/math_demo.py", "demos/math_demo.py", "type: practicum train math"),
    Row(
        says="what the math demo does",
        typed="train configs/demo.yaml model=tiny --dry-run",
        sees="fits: needs",
    ),
    Row(
        says="cp examples/custom_domain_template.py my_domain.py",
        typed="new my_domain",
        sees=r"practicum tasks my_domain:MyDomainEnvironment --check 5",
    ),
    Row(
        says="get_valid_actions()",
        typed="tasks theirs/gym.py:Mine --check 2",
        sees=r"reference 1/1, do-nothing 0/1",
    ),
    Row(says="step()", typed="play theirs/gym.py:Mine", sees=r"answer\s+\+1\.0"),
    Row(
        says="reset()",
        typed="train theirs/gym.py:Mine model=tiny steps=1 eval.n=1 rollouts.tasks_per_step=2 "
        "rollouts.group_size=2",
        sees="is done",
    ),
    _answered(
        "actions as a plain list",
        "train theirs/plain.py:Button model=tiny eval.n=2",
        r"such as practicum.ActionForm\(name='press'\)",
    ),
    Row(
        says="ActionResult",
        python="import practicum; practicum.ActionResult",
        sees=r"here it is practicum\.Observation",
        is_answered=True,
    ),
    Row(
        says="domain-specific rewards",
        typed="train math model=tiny reward=theirs/own_reward.py:short --dry-run",
        sees="reward short",
    ),
    Row(
        says="generated training problems",
        typed="tasks math --level 2",
        sees="math-2-",
    ),
    _layer("AgenticTrainer(NAME)", "    print(trainer.method == 'sft')\n"),
    _layer(
        "model, tokenizer, device = trainer.setup_model()",
        """
    model, tokenizer, device = trainer.setup_model()
    print(tokenizer.decode(tokenizer.encode("x = 3")) == "x = 3" and device == "cpu")
""",
    ),
    _layer(
        "trainer.prepare_training_data(trajectories)",
        TAKEN + "    print(len(trainer.prepare_training_data(rows)) == 7)\n",
    ),
    _layer(
        "prepare_training_data with results",
        """
    rows = [{"problem": "3x = 9", "actions": [{"action": "divide_terms", "result": "x = 3"}]}]
    print(len(AgenticTrainer("tiny", runs_dir="theirs").prepare_training_data(rows)) == 1)
""",
    ),
    _layer(
        "prepare_training_data from the environment's solutions",
        '    print(len(trainer.prepare_training_data("reference")) > 100)\n',
    ),
    _layer(
        "prepare_training_data with lists of actions alone",
        """
    taken = ["identify_operation", "add_terms", "divide_terms", "state_answer"]
    print(len(trainer.prepare_training_data([taken, taken])) == 2)
""",
    ),
    _layer(
        "losses = await trainer.train(dataset)",
        TAKEN
        + """
    losses = await trainer.train(trainer.prepare_training_data(rows), steps=2, quiet=True)
    print(len(losses) == 2)
""",
    ),
    _layer(
        "results = trainer.test_inference(test_problems)",
        f"""
    results = trainer.test_inference(["{ASKED}", "2x = 8"])
    print(all(set(r) == {{"problem", "response", "actions", "success", "reward"}} for r in results))
""",
    ),
    _domain("code", "analyze_requirements, write_function, add_logic, test_code, debug, optimize"),
    _rewards("code", "compilation, tests, quality, efficiency"),
    Row(
        says="code: rewards that run it",
        typed="train math model=tiny 'reward={components: [{name: code_execution}]}' --dry-run",
        sees="reward code_execution",
    ),
    Row(
        says="code: syntax",
        typed="train math model=tiny 'reward={components: [{name: syntax}]}' --dry-run",
        sees="reward syntax",
    ),
    _domain("writing", "brainstorm_ideas, create_outline, write_paragraph, edit_content"),
    _rewards("writing", "grammar, creativity, coherence, engagement"),
    _domain("business", "analyze_situation, identify_options, evaluate_risks, make_decision"),
    _rewards("business", "feasibility, return, risk, clarity"),
    _domain("science", "formulate_hypothesis, design_experiment, analyze_data"),
    _rewards("science", "rigour, consistency, evidence"),
    Row(
        says="each action is rewarded",
        typed=PLAYED,
        sees=r"\+1\.5 .*\+2\.0 .*\+2\.0 .*\+3\.0",
    ),
    Row(
        says="any transformer: a family that is not computed",
        python="""
            import transformers
            from practicum import train
            from practicum.engine.models.tiny import build_tiny_tokenizer
            config = transformers.Gemma2Config(
                vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            )
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained("theirs/gemma")
            build_tiny_tokenizer().save_pretrained("theirs/gemma")
            train("math", model="theirs/gemma", quiet=True)
        """,
        sees="family gemma2, .* choose one of a family such as Qwen2.5",
        is_answered=True,
    ),
    Row(
        says="any transformer: GPT-2",
        python="""
            import transformers
            from practicum import train
            from practicum.engine.models.tiny import build_tiny_tokenizer
            config = transformers.GPT2Config(
                vocab_size=320, n_embd=32, n_layer=1, n_head=4, n_positions=2048,
                eos_token_id=259, bos_token_id=256,
            )
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained("theirs/gpt2")
            build_tiny_tokenizer().save_pretrained("theirs/gpt2")
            run = train(
                "math", model="theirs/gpt2", steps=1, eval={"n": 0}, quiet=True, runs_dir="theirs",
                rollouts={"tasks_per_step": 1, "group_size": 2, "max_turns": 2},
            )
            print("trained", len(run.metrics))
        """,
        sees="trained 1",
        mark="slow",
    ),
    _answered(
        "any transformer: one that is not here",
        "train math model=nowhere/model steps=1",
        "nowhere/model",
    ),
    Row(
        says="training time, before it begins",
        typed=f"doctor --config math model={HALF} --device rtx4090",
        sees="time: at most about",
    ),
    Row(
        says="inference speed",
        file="docs/performance.md",
        sees="tokens/s",
    ),
    Row(
        says="POST /solve",
        python=SERVED.replace(
            "SAID", f'print(client.post("/solve", json={{"problem": "{ASKED}"}}).json())'
        ),
        sees="'solution': '",
        mark="slow",
    ),
    Row(
        says="POST /solve with problem: str, as FastAPI reads it",
        python=SERVED.replace(
            "SAID", f'print(client.post("/solve", params={{"problem": "{ASKED}"}}).json())'
        ),
        sees="'solution': '",
        mark="slow",
    ),
    _answered(
        "uvicorn api:app --host 0.0.0.0 --port 8000",
        "uvicorn api:app --host 0.0.0.0 --port 8000",
        "type: practicum serve RUN --port 8000",
    ),
    Row(
        says="FROM python:3.11-slim",
        file="packaging/Dockerfile",
        sees=r"FROM python:\$\{PYTHON\}-slim",
    ),
    Row(says="a container that serves on port 8000", file="packaging/Dockerfile", sees="8000"),
    Row(
        says="AWS, GCP, Azure",
        file="packaging/kubernetes.yaml",
        sees="kind: Deployment",
        aside="cluster",
    ),
    Row(
        says="monitor performance",
        typed="serve --help",
        sees="--access-log",
    ),
    Row(says="retrain models", typed="learn --help", sees="serve what proves better"),
    Row(
        says="data and workflows that there are",
        typed="traces import --help",
        sees="FORMAT|format",
    ),
    Row(says="generate training data", typed="dataset build --help", sees="--from"),
    Row(
        says="baselines of traditional fine-tuning",
        typed="train math model=tiny algorithm=sft data=reference --dry-run",
        sees="name: sft",
    ),
    Row(says="comparing methods", typed="compare --help", sees="STUDY|stud"),
    Row(
        says="complex multi-step problems",
        typed="play math --policy reference --task '2(x + 3)/4 = x - 1'",
        sees="solved, total reward",
    ),
    Row(
        says="transparent reasoning",
        typed="traces show train/2/0/0/math-1-8x-5=75/2 --store runs/first/traces.sqlite",
        sees="identify_operation|_terms",
    ),
    Row(
        says="debuggable failures",
        typed="runs first",
        sees="── last episodes ─+ .*cut off at the turn limit",
    ),
    Row(
        says="evaluation criteria of a domain",
        typed="eval runs/first --n 2 --json",
        sees='"success"',
    ),
    Row(
        says="curriculum learning",
        typed="train configs/math_curriculum.yaml model=tiny --dry-run",
        sees="curriculum:",
    ),
    Row(
        says="several domains in one run",
        typed="train env=[math,shell] model=tiny steps=2 --dry-run",
        sees="name: mixed .*reward turns and",
    ),
    Row(
        says="the next domain, from where the first ended",
        typed="train math env.level=2 model=tiny lora.start=runs/first/checkpoints/latest steps=1 "
        "eval.n=0 rollouts.tasks_per_step=1 rollouts.group_size=2 rollouts.max_turns=2 "
        "hardware.threads=1 runs_dir=theirs --name next",
        sees="theirs/next is done",
    ),
    Row(
        says="multi-agent systems",
        typed="train examples/05_roles.py:ReviewEnvironment model=tiny steps=1 eval.n=0 "
        "warm_start=none rollouts.tasks_per_step=2 rollouts.group_size=3 hardware.threads=1 "
        "agent.frozen=[reviewer] runs_dir=theirs --name roles",
        sees="theirs/roles is done",
        mark="slow",
    ),
    Row(
        says="hierarchical actions",
        typed="train examples/05_roles.py:DelegateEnvironment model=tiny steps=1 eval.n=0 "
        "warm_start=none rollouts.tasks_per_step=2 rollouts.group_size=3 hardware.threads=1 "
        "runs_dir=theirs --name nested",
        sees="theirs/nested is done",
        mark="slow",
    ),
    Row(says="troubleshooting guide", file="docs/troubleshooting.md", sees="## "),
    Row(says="adaptation guide", file="docs/environments.md", sees="class "),
    Row(says="deployment scripts", file="packaging/practicum.service", sees="practicum serve"),
    Row(
        says="package installation",
        file="pyproject.toml",
        sees=r'practicum = "practicum.__main__:main"',
    ),
]
