"""What the summary of TAC-RL names."""

from tests.integration.mission_row import Row

SEVEN_B = "Qwen/Qwen2.5-7B-Instruct"
THEIRS = f"""\
model:
  name: qwen2.5-7b
  base_model_path: {SEVEN_B}
  model_type: qwen2
  parameter_count: 7B
  context_length: 32768
  supports_function_calling: true
  device: auto
  load_in_8bit: true
  torch_dtype: bfloat16
training:
  algorithm: grpo
  batch_size: 2
  learning_rate: 1e-5
  max_episodes_per_task: 4
  reward_scale: 1.0
  current_phase: warmup
  tasks_per_phase: 50
  success_threshold: 0.65
  max_parallel_tasks: 1
  checkpoint_frequency: 25
  evaluation_frequency: 10
  output_dir: outputs
  checkpoint_dir: checkpoints
  log_dir: logs
lora: {{r: 8, lora_alpha: 16, lora_dropout: 0.1, target_modules: [q_proj, v_proj]}}
task_phases: {{warmup: {{max_difficulty: 2}}}}
openhands: {{max_iterations: 50, timeout: 180, enable_auto_lint: true, use_host_network: true}}
environment: {{server_hostname: localhost, services: [gitlab, plane, rocketchat, owncloud]}}
monitoring:
  use_wandb: true
  project_name: tac-rl
  log_level: INFO
  save_trajectories: true
  realtime_monitoring: true
requirements: {{min_gpu_memory_gb: 12, recommended_gpu_memory_gb: 16, cuda_required: false}}
"""
FILES = {"theirs/tac_rl.yaml": THEIRS}

PLANNED = "train theirs/tac_rl.yaml model=tiny --dry-run"
KEYS = {
    "model.name": "is not needed",
    "model.base_model_path": f"is model.name={SEVEN_B}",
    "model.model_type": "is not needed",
    "model.parameter_count": "is not needed",
    "model.context_length": "is not needed",
    "model.supports_function_calling": "is not needed",
    "model.device": "is model.device=auto",
    "model.load_in_8bit": "has no counterpart and is left out .there are no 8-bit",
    "model.torch_dtype": "is model.dtype=bfloat16",
    "training.algorithm": "is algorithm.name=grpo",
    "training.batch_size": "is rollouts.tasks_per_step=2",
    "training.learning_rate": "is algorithm.lr=1e-5",
    "training.max_episodes_per_task": "is rollouts.group_size=4",
    "training.reward_scale": "is not needed .episodes of a group are compared",
    "training.current_phase": r"is curriculum.phases=\[\[1\],\[2\],\[3\],\[4\]\]",
    "training.tasks_per_phase": "is not needed .a phase ends when it is mastered",
    "training.success_threshold": "is curriculum.threshold=0.65",
    "training.max_parallel_tasks": "is not needed",
    "training.checkpoint_frequency": "is checkpoints.every=25",
    "training.evaluation_frequency": "is eval.every=10",
    "training.output_dir": "is runs_dir=outputs",
    "training.checkpoint_dir": "is not needed .a run's folder has all",
    "training.log_dir": "is not needed .a run's folder has all",
    "lora.r": "is lora.r=8",
    "lora.lora_alpha": "is lora.alpha=16",
    "lora.lora_dropout": "is lora.dropout=0.1",
    "lora.target_modules": r"is lora.targets=\[q_proj,v_proj\]",
    "task_phases": "is not needed .the phases are the office's levels",
    "openhands.max_iterations": "is rollouts.max_turns=50 env.rounds=50",
    "openhands.timeout": "is agent.deadline_s=180",
    "openhands.enable_auto_lint": "is not needed .OpenHands itself acts with agent=openhands",
    "openhands.use_host_network": "is not needed",
    "environment.server_hostname": "is not needed .*env.server_hostname=localhost",
    "environment.services": "is not needed .env: office has them all",
    "monitoring.use_wandb": "is not needed .every step is in metrics.jsonl",
    "monitoring.project_name": "is not needed",
    "monitoring.log_level": "is not needed",
    "monitoring.save_trajectories": "is not needed .every episode is in traces.sqlite",
    "monitoring.realtime_monitoring": "is not needed .practicum watch",
    "requirements.min_gpu_memory_gb": "is not needed .practicum doctor --config",
    "requirements.recommended_gpu_memory_gb": "is not needed .practicum doctor --config",
    "requirements.cuda_required": "is not needed .any device will do",
}
"""Keys of its config file, and what its lines say of them."""

LOOP = """
    from practicum.compat import TrainableModel, compute_reward, sample_professional_tasks
    small = ["hardware.threads=1", "rollouts.max_turns=3", "algorithm.lr=1e-2"]
    model = TrainableModel(
        "tiny", {"r": 4, "lora_alpha": 8}, env="math", runs_dir="theirs", overrides=small
    )
    before = model._policy.policy.learner.fingerprint()
    for iteration in range(2):
        tasks = sample_professional_tasks(n=2, attempts=3, env="math")
        results = []
        for task in tasks:
            result = await model.execute_task(task)
            results.append(result)
        rewards = [compute_reward(r) for r in results]
        trajectory_groups = results
        await model.train(trajectory_groups, rewards)
    print("steps", model.step, "changed", model._policy.policy.learner.fingerprint() != before)
    await model.close()
"""
"""The training flow as it is written there, with a model and tasks that are small."""


def _file(theirs: str, ours: str) -> Row:
    line = rf"\| `{theirs}` \| `{ours}`"
    return Row(says=theirs, file="docs/coming-from.md", sees=line)


def _card(says: str, card: str, sees: str) -> Row:
    return Row(
        says=says,
        typed=f"doctor --config configs/office_qwen2.5_7b.yaml --device {card}",
        sees=sees,
    )


ROWS = [
    Row(says="the training flow", python=LOOP, sees="steps 2 changed True"),
    Row(
        says="TrainableModel(NAME, peft_config) under ART's name",
        python='import practicum.art as art; art.TrainableModel("tiny", {"r": 8})',
        sees=r"is in practicum\.compat",
        is_answered=True,
    ),
    Row(
        says="model.execute_task(task)",
        python="""
            from practicum.compat import TrainableModel
            model = TrainableModel("tiny", env="math", runs_dir="theirs")
            result = await model.execute_task("3x + 7 = 16")
            print(result.success in (True, False), result.reward, len(result.messages) > 2)
            await model.close()
        """,
        sees=r"True -?[\d.]+ True",
    ),
    Row(
        says="sample_professional_tasks()",
        python="""
            from practicum.compat import sample_professional_tasks
            print(*{task.env for task in sample_professional_tasks()})
        """,
        sees="office",
    ),
    Row(
        says="compute_reward(r), where one looks for it first",
        python="import practicum; practicum.compute_reward",
        sees=r"here it is practicum\.compat\.compute_reward",
        is_answered=True,
    ),
    Row(
        says="Qwen 2.5 7B",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device h200",
        sees=rf"memory to train {SEVEN_B} .*fits: needs",
    ),
    Row(
        says="art.TrainableModel",
        python="""
            import practicum.art as art
            model = art.TrainableModel(name="a", project="p", base_model="tiny", base_path="art")
            await model.register(art.LocalBackend())
            client = model.openai_client()
            said = await client.chat.completions.create(
                model="a", messages=[{"role": "user", "content": "hello"}], max_tokens=4
            )
            print(said.choices[0].message.role)
            await model.backend().close()
        """,
        sees="assistant",
    ),
    Row(says="LoRA", typed="train math model=tiny lora.r=8 --dry-run", sees=r"lora: .* r: 8 "),
    Row(says="GRPO", typed="train math model=tiny algorithm=grpo --dry-run", sees="name: grpo"),
    Row(
        says="RULER rewards",
        typed="train math model=tiny 'reward={components: [{name: ruler}]}' --dry-run",
        sees="here it is judge, which ranks",
        is_answered=True,
    ),
    Row(
        says="RULER rewards, in ART's words",
        python="""
            from practicum.art.rewards import ruler_score_group
            print(ruler_score_group.__name__)
        """,
        sees="ruler_score_group",
    ),
    Row(
        says="model checkpoints",
        typed="runs first",
        sees=r"── checkpoints ─+ step_2 \(latest, best\) in runs/first/checkpoints",
    ),
    Row(
        says="tasks through OpenHands",
        typed="train configs/openhands_office.yaml model=tiny --dry-run",
        sees="practicum agents install openhands",
        is_answered=True,
    ),
    Row(
        says="trajectories for training",
        typed="traces list --store runs/first/traces.sqlite",
        sees="train/2/0/0/math-1",
    ),
    Row(
        says="async execution",
        python="""
            import practicum as pr
            run = await pr.train_async(
                "math", model="tiny", steps=1, runs_dir="theirs", quiet=True, eval={"n": 0},
                rollouts={"tasks_per_step": 1, "group_size": 2, "max_turns": 2},
            )
            print(len(run.metrics))
        """,
        sees="1",
    ),
    Row(
        says="one model for execution and training",
        shell="cat runs/first/metrics.jsonl",
        sees=r'"logprob_gap": \d',
    ),
    Row(
        says="GPU memory management",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device rtx4090",
        sees="chosen for this machine's memory .*micro-batch .*checkpointing .*KV cache",
    ),
    Row(
        says="error handling",
        typed="train math model=nowhere/at-all steps=1",
        sees="practicum: .*nowhere/at-all",
        is_answered=True,
    ),
    Row(
        says="configs/qwen_2_5_7b_local.yaml",
        typed="train --config configs/qwen_2_5_7b_local.yaml model=tiny --dry-run",
        sees=r"qwen_2_5_7b_local.yaml is configs/office_qwen2.5_7b.yaml here",
    ),
    Row(
        says="configs/qwen_2_5_7b_local.yaml, by position",
        typed="train configs/qwen_2_5_7b_local.yaml",
        sees="here it is configs/office_qwen2.5_7b.yaml",
        is_answered=True,
    ),
    Row(
        says="GPU-optimized settings",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device h200",
        sees="larger batches",
    ),
    Row(says="memory-efficient batch sizes", typed=PLANNED, sees=r"micro-batch .* tokens"),
    *(
        Row(says=f"{key} of its config file", typed=PLANNED, sees=rf"{key}: .*{became}")
        for key, became in KEYS.items()
    ),
    Row(
        says="its config file, trained",
        typed="train theirs/tac_rl.yaml model=tiny env=math curriculum=none steps=1 eval.n=2 "
        "rollouts.max_turns=2 rollouts.max_tokens=16 runs_dir=theirs --name whole",
        sees="theirs/whole is done",
    ),
    Row(says="setup.sh", shell="MAKEFLAGS=n ./setup.sh", sees="practicum doctor"),
    Row(says="PyTorch + CUDA", file="requirements.txt", sees=r"torch==\d"),
    Row(
        says="PEFT for LoRA",
        python="""
            import peft
            found = peft.PeftConfig.from_pretrained("runs/first/checkpoints/step_2")
            print(found.peft_type, found.r)
        """,
        sees="LORA 16",
    ),
    Row(
        says="vLLM for inference",
        typed="train math rollouts.engine=vllm",
        sees="rollouts.engine is sampler.kind .*vllm",
        is_answered=True,
    ),
    Row(
        says="vLLM for inference, as TRL has it",
        typed="train math model=tiny --use_vllm --dry-run",
        sees="--use_vllm is sampler=vllm here",
    ),
    Row(says="validate_gpu.py", typed="validate_gpu.py", sees="memory .* device"),
    Row(
        says="python tac_rl/validate_gpu.py", typed="tac_rl/validate_gpu.py", sees="is doctor here"
    ),
    Row(says="CUDA availability checks", typed="doctor --json", sees='"devices"'),
    Row(
        says="CUDA that is not there",
        typed="train math model=tiny model.device=cuda --dry-run",
        sees="set model.device to one of: auto",
        is_answered=True,
    ),
    Row(
        says="memory requirement validation",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device a100-80g",
        sees="fits: needs about",
    ),
    Row(says="dependency verification", typed="doctor", sees="torch .* transformers"),
    _file("README_CORRECTED.md", "README.md"),
    _file("GETTING_STARTED.md", "docs/your-first-run.md"),
    _file("IMPLEMENTATION_SUMMARY.md", "CONTRIBUTING.md"),
    _file("local_art_trainer.py", "src/practicum/compat/art/local.py"),
    _file("local_openhands_runner.py", "src/practicum/agents/openhands/runner.py"),
    _file("architecture.py", "src/practicum/training/loop.py"),
    _file("train.py", "src/practicum/cli/train.py"),
    Row(
        says="the same three lines in the page of other systems' words",
        file="docs/coming-from.md",
        sees=r"`python tac_rl/validate_gpu.py` \| `practicum doctor` .*"
        r"`python tac_rl/monitor.py --watch` \| `practicum watch`",
    ),
    Row(
        says="python tac_rl/train.py --config FILE",
        typed="tac_rl/train.py --config configs/tiny.yaml --validate-only",
        sees="--validate-only is --dry-run here",
    ),
    Row(
        says="python tac_rl/monitor.py --watch",
        typed="tac_rl/monitor.py --watch --once",
        sees=r"tac_rl/monitor\.py is watch here",
    ),
    Row(
        says="30 % to 85 % success on professional tasks",
        file="docs/office.md",
        sees=r"0\.30 .*0\.85",
        fails="no run of a model of 7B has been measured on the office's tasks",
    ),
    Row(
        says="offline operation",
        python="""
            import socket
            import practicum as pr
            connect = socket.socket.connect
            def refuse(self, address):
                raise AssertionError(f"it asked {address}")
            socket.socket.connect = refuse
            try:
                print(pr.evaluate("runs/first", n=2))
            finally:
                socket.socket.connect = connect
        """,
        sees="success",
    ),
    _card("RTX 4090", "rtx4090", "fits: needs about 2[0-3]"),
    Row(
        says="a GPU of 16 GB",
        typed="doctor --config configs/office_qwen2.5_7b.yaml --device rtx4060ti",
        sees="what would help .*model=Qwen/Qwen2.5-3B",
        is_answered=True,
    ),
    _card("50 GB of storage", "rtx4090", r"disk: about \d+"),
    _card("time for full training", "rtx4090", "time: at most about .* for 150 steps"),
    _card("GPU compute instead of API fees", "rtx4090", r"cost: at most about \$\d"),
    Row(says="32 GB of RAM", typed="doctor", sees="memory .* GiB free of"),
    Row(
        says="performance improvement tracking",
        typed="runs first",
        sees="difference in success|No difference in success is shown",
    ),
    Row(
        says="curriculum learning",
        typed="train math model=tiny curriculum=phases --dry-run",
        sees="curriculum: .*name: phases",
    ),
    Row(
        says="RL on TheAgentCompany's tasks",
        typed="train agent_company model=tiny",
        sees="train with env: office, and evaluate with env: agent_company",
        is_answered=True,
    ),
    Row(
        says="extensible architecture",
        typed="train math model=tiny reward=theirs/own_reward.py:short steps=1 eval.n=0 "
        "rollouts.tasks_per_step=1 rollouts.group_size=2 rollouts.max_turns=2 runs_dir=theirs "
        "--name own",
        sees="theirs/own is done",
    ),
]
FILES["theirs/own_reward.py"] = """\
def short(task, trace, outcome):
    return 1.0 / (1 + len(trace.turns))
"""
