"""The table of other systems' words: commands, flags, config keys, classes, files, and ours.

docs/coming-from.md is made from it, `other_words` looks words up in it, and a test goes through
every row.
"""

from dataclasses import dataclass
from typing import Literal

from practicum.core.guide_words import OF_LORA, OF_TRACES

Kind = Literal["command", "verb", "flag", "key", "class", "method", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of another system, and what works here.

    `theirs` has an example value where one is taken, and `ours` the same value. Where `ours` is a
    whole command (`practicum ...`) it is what to type instead; where it is empty, nothing is to be
    typed, and `note` says why.
    """

    system: str
    kind: Kind
    theirs: str
    ours: str
    note: str = ""
    verb: str = ""
    """Of a flag: the verb here that takes it."""

    @property
    def name(self) -> str:
        """The flag, verb or key without its value, as it is looked up."""
        return bare(self.theirs.split()[0]) if self.kind == "flag" else self.theirs


def bare(flag: str) -> str:
    """A flag however it is spelled: `--run-id` and `--run_id` are one.

    >>> bare("--run_id")
    '--run-id'
    """
    return "--" + flag.lstrip("-").replace("_", "-")


TAC = "TAC-RL"
ACTIONS = "Agentic RL by discrete actions"
TRACES = "RL pipeline from an agent's traces (ToolBoxV2)"
LORA = "LoRA and PPO on os_interaction"
TRL = "TRL"
ART = "OpenPipe ART"
UNSLOTH = "Unsloth"
VERL = "verl"

SYSTEMS = (TAC, ACTIONS, TRACES, LORA, TRL, ART, UNSLOTH, VERL)

ALWAYS = "it is always so"
LOGGED = "every step is in metrics.jsonl"
BY_MEMORY = "chosen by the memory there is; --dry-run shows it"
VLLM_URLS = "sampler={kind: vllm, urls: [http://HOST:PORT]}; without urls a run starts its own"
VLLM_ARGS = "with sampler=vllm, sampler.args=[--tensor-parallel-size=2] and the like"

ON_CLUSTER = "with cluster=ray, docs/scaling.md"


def _rows(system: str, kind: Kind, *rows: tuple[str, ...], verb: str = "") -> list[Word]:
    package = "practicum." if kind in ("class", "method") else ""
    return [
        Word(
            system=system,
            kind=kind,
            theirs=row[0],
            ours=row[1] if row[1].startswith("docs/") else package + row[1],
            note=row[2] if len(row) > 2 else "",
            verb=verb,
        )
        for row in rows
    ]


_7B = "configs/office_qwen2.5_7b.yaml"
_TAC = [
    *_rows(
        TAC,
        "command",
        ("./setup.sh", "make setup", "setup.sh calls it"),
        ("python tac_rl/validate_gpu.py", "practicum doctor"),
        ("python train.py --config configs/qwen_2_5_7b.yaml", f"practicum train {_7B}"),
        ("python train.py --config FILE --resume", "practicum train --resume RUN"),
        ("python tac_rl/monitor.py --watch", "practicum watch"),
        ("python monitor.py --run-id latest", "practicum watch latest"),
        ("python monitor.py --list", "practicum runs"),
        ("python monitor.py --generate-report", "practicum report latest"),
    ),
    *_rows(
        TAC,
        "verb",
        ("monitor", "watch"),
        ("validate", "doctor"),
        ("validate_gpu", "doctor"),
        ("setup", "doctor"),
        ("list", "runs"),
        ("quick_start", "practicum train configs/demo.yaml"),
        ("math_demo", "practicum train math"),
        ("uvicorn", "practicum serve RUN --port 8000"),
    ),
    *_rows(
        TAC,
        "flag",
        ("--config configs/demo.yaml", "configs/demo.yaml"),
        ("--run-id first", "--name first"),
        ("--validate-only", "--dry-run"),
        ("--create-config", "practicum train math --dry-run", "prints a whole config"),
        verb="train",
    ),
    *_rows(
        TAC,
        "flag",
        ("--watch", "", ALWAYS),
        ("--run-id latest", "latest"),
        ("--logs-dir runs", "--runs-dir runs"),
        ("--list", "practicum runs"),
        ("--generate-report", "practicum report RUN --to report.html"),
        ("--report-output report.txt", "practicum report RUN --to report.md"),
        ("--visualize", "practicum report RUN --to report.html", "with charts"),
        verb="watch",
    ),
    *_rows(
        TAC,
        "file",
        ("configs/qwen_2_5_7b.yaml", _7B),
        ("configs/qwen_2_5_7b_local.yaml", _7B),
        ("GETTING_STARTED.md", "docs/your-first-run.md"),
        ("README_CORRECTED.md", "README.md"),
        ("IMPLEMENTATION_SUMMARY.md", "CONTRIBUTING.md"),
        ("train.py", "src/practicum/cli/train.py"),
        ("monitor.py", "src/practicum/cli/watch.py"),
        ("validate_gpu.py", "src/practicum/cli/doctor.py"),
        ("local_art_trainer.py", "src/practicum/compat/art/local.py"),
        ("local_openhands_runner.py", "src/practicum/agents/openhands/runner.py"),
        ("architecture.py", "src/practicum/training/loop.py"),
    ),
    *_rows(
        TAC,
        "class",
        ("art.TrainableModel", "art.TrainableModel"),
        ("compute_reward(result)", "compat.compute_reward"),
    ),
    *_rows(
        TAC,
        "method",
        ("TrainableModel(NAME, peft_config)", "compat.TrainableModel"),
        ("model.execute_task(task)", "compat.TrainableModel.execute_task"),
        ("model.train(trajectory_groups, rewards)", "compat.TrainableModel.train"),
        ("sample_professional_tasks()", "compat.sample_professional_tasks"),
    ),
    *_rows(
        TAC,
        "key",
        ("model.base_model_path", "model.name"),
        ("model.model_type", "", "read from the model"),
        ("model.parameter_count", "", "read from the model"),
        ("model.context_length", "", "read from the model"),
        ("model.supports_function_calling", "", "read from its chat template"),
        ("model.load_in_8bit", "model.dtype", "bfloat16; there are no 8-bit weights"),
        ("model.load_in_4bit", "model.dtype", "bfloat16; there are no 4-bit weights"),
        ("model.torch_dtype", "model.dtype"),
        ("training.algorithm", "algorithm.name"),
        ("training.batch_size", "rollouts.tasks_per_step"),
        ("training.learning_rate", "algorithm.lr"),
        ("training.max_episodes_per_task", "rollouts.group_size"),
        ("training.reward_scale", "reward.components", "weight: of each"),
        ("training.current_phase", "curriculum", "phases"),
        ("training.tasks_per_phase", "curriculum", "phases"),
        ("training.success_threshold", "curriculum", "phases"),
        ("training.max_parallel_tasks", "agent.at_once"),
        ("training.checkpoint_frequency", "checkpoints.every"),
        ("training.evaluation_frequency", "eval.every"),
        ("training.output_dir", "runs_dir"),
        ("training.checkpoint_dir", "runs_dir", "a run's folder has all"),
        ("training.log_dir", "runs_dir", "a run's folder has all"),
        ("task_phases", "curriculum", "phases"),
        ("lora.lora_alpha", "lora.alpha"),
        ("lora.lora_dropout", "lora.dropout"),
        ("lora.target_modules", "lora.targets"),
        ("openhands.max_iterations", "rollouts.max_turns"),
        ("openhands.timeout", "agent.deadline_s"),
        ("openhands.enable_auto_lint", "agent", "openhands, with its options"),
        ("openhands.use_host_network", "", "agents have no network but the gateway"),
        ("environment.server_hostname", "env.server_hostname", "env: agent_company"),
        ("environment.services", "", "env: office has them all"),
        ("monitoring.use_wandb", "", LOGGED),
        ("monitoring.project_name", "runs_dir"),
        ("monitoring.log_level", "", LOGGED),
        ("monitoring.save_trajectories", "", "every episode is in traces.sqlite"),
        ("monitoring.realtime_monitoring", "", "practicum watch"),
        ("requirements.min_gpu_memory_gb", "", "practicum doctor --config FILE"),
        ("requirements.recommended_gpu_memory_gb", "", "practicum doctor --config FILE"),
        ("requirements.cuda_required", "model.device"),
        ("rollouts.engine", "sampler.kind", "engine, practicum or vllm"),
    ),
]

_ACTIONS = [
    *_rows(
        ACTIONS,
        "command",
        ("./quick_start.sh", "make demo", "quick_start.sh calls it"),
        ("python demos/math_demo.py", "practicum train math"),
        (
            "cp examples/custom_domain_template.py my_domain.py",
            "practicum new my_domain",
        ),
        ("uvicorn api:app --port 8000", "practicum serve RUN --port 8000"),
        ("POST /solve", "practicum serve RUN", "docs/serve.md"),
        ("domains: code, writing, business, science", "practicum train code", "or another of them"),
    ),
    *_rows(
        ACTIONS,
        "file",
        ("core/environment.py", "src/practicum/core/interfaces.py"),
        ("core/trainer.py", "src/practicum/compat/pipeline.py"),
        ("demos/math_demo.py", "configs/demo.yaml"),
        ("examples/custom_domain_template.py", "examples/01_own_environment.py"),
        ("docs/domain_guide.md", "docs/domain-guide.md"),
        ("setup.py", "pyproject.toml"),
        ("Dockerfile", "packaging/Dockerfile"),
    ),
    *_rows(
        ACTIONS,
        "method",
        ('AgenticTrainer("Qwen/Qwen2.5-0.5B-Instruct")', "AgenticTrainer"),
        ("trainer.setup_model()", "AgenticTrainer.setup_model"),
        (
            "trainer.prepare_training_data(trajectories)",
            "AgenticTrainer.prepare_training_data",
            "conversations, or problem and actions, or lists of actions alone",
        ),
        ("await trainer.train(dataset)", "AgenticTrainer.train", "with or without await"),
        ("trainer.test_inference(problems)", "AgenticTrainer.test_inference"),
        ("env.get_valid_actions()", "DiscreteSession.actions"),
        ("env.step(action)", "DiscreteSession.act"),
        ("env.reset()", "Environment.open"),
        ("ActionResult", "Observation"),
    ),
]

_TRL = [
    *_rows(
        TRL,
        "command",
        (
            "accelerate launch --num_processes 2 train.py",
            "practicum train CONFIG --processes 2",
            "or accelerate launch --multi_gpu --num_processes 2 -m practicum train CONFIG",
        ),
        (
            "torchrun --nproc-per-node 2 train.py",
            "practicum train CONFIG --processes 2",
            "or torchrun --nproc-per-node 2 -m practicum train CONFIG",
        ),
    ),
    *_rows(TRL, "key", ("num_processes", "hardware.processes", "or --processes N")),
    *_rows(
        TRL,
        "verb",
        ("sft", "practicum train ENV algorithm=sft data=SOURCE"),
        ("kto", "practicum train ENV algorithm=kto data=SOURCE"),
        ("dpo", "practicum train ENV algorithm=dpo data=SOURCE"),
        ("grpo", "practicum train ENV algorithm=grpo"),
        ("rloo", "practicum train ENV algorithm=rloo"),
        ("ppo", "practicum train ENV algorithm=ppo"),
        ("vllm-serve", "practicum serve MODEL"),
    ),
    *_rows(
        TRL,
        "flag",
        ("--model_name_or_path tiny", "model=tiny"),
        ("--dataset_name rows.jsonl", "data=rows.jsonl"),
        ("--max_steps 10", "steps=10"),
        ("--num_train_epochs 3", "practicum train ENV steps=N", "tasks have no end, so N steps"),
        ("--per_device_train_batch_size 8", "rollouts.tasks_per_step=8"),
        ("--gradient_accumulation_steps 4", "", BY_MEMORY),
        ("--gradient_checkpointing", "", BY_MEMORY),
        ("--use_peft", "", ALWAYS),
        ("--use_vllm", "sampler=vllm", "docs/samplers.md"),
        ("--vllm_mode server", "", VLLM_URLS),
        ("--vllm_server_base_url http://127.0.0.1:8000", "", VLLM_URLS),
        ("--vllm_tensor_parallel_size 2", "", VLLM_ARGS),
        ("--vllm_gpu_memory_utilization 0.3", "", VLLM_ARGS),
        ("--num_generations 8", "rollouts.group_size=8"),
        ("--max_completion_length 64", "rollouts.max_tokens=64"),
        ("--max_prompt_length 512", "", "prompts are not cut"),
        ("--epsilon 0.2", "algorithm.clip=0.2"),
        ("--beta 0.04", "algorithm.kl=0.04", "algorithm.beta=0.04 with kto and dpo"),
        ("--num_iterations 2", "algorithm.epochs=2"),
        ("--num_ppo_epochs 4", "algorithm.epochs=4"),
        ("--num_mini_batches 4", "algorithm.minibatches=4"),
        ("--loss_type dapo", "algorithm=dapo", "grpo, dr_grpo, dapo, gspo, cispo"),
        ("--scale_rewards none", "algorithm.scale=none"),
        ("--lora_dropout 0.1", "lora.dropout=0.1"),
        ("--lora_target_modules q_proj", "lora.targets=[q_proj]"),
        ("--lr_scheduler_type linear", "algorithm.schedule=linear"),
        ("--warmup_ratio 0.1", "practicum train ENV algorithm.schedule=linear"),
        ("--max_grad_norm 1.0", "algorithm.max_grad_norm=1.0"),
        ("--weight_decay 0.1", "algorithm.weight_decay=0.1"),
        ("--save_steps 5", "checkpoints.every=5"),
        ("--save_total_limit 3", "checkpoints.keep=3"),
        ("--eval_steps 5", "eval.every=5"),
        ("--logging_steps 1", "", LOGGED),
        ("--report_to none", "", LOGGED),
        ("--bf16", "model.dtype=bfloat16"),
        ("--torch_dtype bfloat16", "model.dtype=bfloat16"),
        ("--load_in_4bit", "practicum train ENV model.dtype=bfloat16", "no 4-bit weights"),
        ("--load_in_8bit", "practicum train ENV model.dtype=bfloat16", "no 8-bit weights"),
        (
            "--reward_funcs FILE.py:NAME",
            "practicum train CONFIG",
            "reward: {components: [{name: FILE.py:NAME}]}",
        ),
        ("--num_processes 2", "--processes 2", "a GPU each"),
        ("--nproc_per_node 2", "--processes 2", "a GPU each"),
        ("--resume_from_checkpoint runs/a", "--resume runs/a"),
        ("--run_name first", "--name first"),
        verb="train",
    ),
    *_rows(
        TRL,
        "class",
        ("GRPOTrainer", "train", 'algorithm="grpo"'),
        ("GRPOConfig", "RunConfig"),
        ("SFTTrainer", "train", 'algorithm="sft", data=...'),
        ("SFTConfig", "RunConfig"),
        ("DPOTrainer", "train", 'algorithm="dpo", data=...'),
        ("DPOConfig", "RunConfig"),
        ("KTOTrainer", "train", 'algorithm="kto", data=...'),
        ("KTOConfig", "RunConfig"),
        ("PPOTrainer", "train", 'algorithm="ppo"'),
        ("PPOConfig", "RunConfig"),
        ("RLOOTrainer", "train", 'algorithm="rloo"'),
        ("RLOOConfig", "RunConfig"),
        ("LoraConfig", "RunConfig", "its key lora"),
    ),
]

_ART_NAMES = (
    *("TrainableModel", "Trajectory", "TrajectoryGroup", "Model", "TrainConfig", "Messages"),
    *("gather_trajectory_groups", "gather_trajectories", "Backend", "trajectories"),
)
_ART = [
    *_rows(ART, "class", *((f"art.{name}", f"art.{name}") for name in _ART_NAMES)),
    *_rows(
        ART,
        "class",
        ("art.local.LocalBackend", "compat.art.local.LocalBackend"),
        ("art.rewards.ruler_score_group", "compat.art.rewards.ruler_score_group"),
        ("art.utils.iterate_dataset", "compat.art.dataset_batches.iterate_dataset"),
    ),
    *_rows(
        ART,
        "method",
        ("await model.register(backend)", "art.TrainableModel.register"),
        ("await model.train(groups)", "art.TrainableModel.train"),
        ("model.openai_client()", "art.TrainableModel.openai_client"),
        ("model.get_inference_name()", "art.TrainableModel.get_inference_name"),
        ("await model.get_step()", "art.TrainableModel.get_step"),
        ("await model.log(groups)", "art.TrainableModel.log"),
    ),
]

_UNSLOTH = [
    *_rows(
        UNSLOTH,
        "method",
        ("FastLanguageModel.from_pretrained(NAME)", "train", "model=NAME"),
        ("FastLanguageModel.get_peft_model(model, r=16)", "train", 'lora={"r": 16}'),
        ("FastLanguageModel.for_inference(model)", "play"),
        ("model.save_pretrained_merged(DIR)", "export", 'export(run, "merged", DIR)'),
        ("model.save_pretrained_gguf(DIR)", "export", 'export(run, "gguf", DIR)'),
        ("model.push_to_hub_gguf(NAME)", "docs/export.md", "practicum push"),
        ("model.save_lora(DIR)", "export", 'export(run, "adapter", DIR)'),
    ),
    *_rows(
        UNSLOTH,
        "key",
        (
            "max_seq_length",
            "rollouts.max_tokens",
            "of a turn; episodes as long as the model allows",
        ),
        ("load_in_4bit", "model.dtype", "bfloat16; there are no 4-bit weights"),
        ("fast_inference", "", ALWAYS),
        ("max_lora_rank", "lora.r"),
        ("gpu_memory_utilization", "", BY_MEMORY),
        ("use_gradient_checkpointing", "", BY_MEMORY),
        ("target_modules", "lora.targets"),
        ("random_state", "seed"),
    ),
]

_VERL = [
    *_rows(
        VERL,
        "command",
        ("python3 -m verl.trainer.main_ppo", "practicum train CONFIG algorithm=ppo"),
        (
            "python3 -m verl.trainer.fsdp_sft_trainer",
            "practicum train CONFIG algorithm=sft data=FILE",
        ),
        ("python3 -m verl.model_merger merge", "practicum export RUN --to merged"),
    ),
    *_rows(
        VERL,
        "key",
        ("algorithm.adv_estimator", "algorithm.name", "grpo, rloo, reinforce++, ppo for gae"),
        ("algorithm.use_kl_in_reward", "algorithm.kl_in", "reward"),
        ("algorithm.kl_ctrl.kl_coef", "algorithm.kl"),
        ("algorithm.gamma", "algorithm.discount"),
        ("algorithm.lam", "algorithm.gae_lambda"),
        ("data.train_files", "env", "a class, or env: tasks with data: FILE"),
        ("data.val_files", "env", "every environment holds tasks out"),
        ("data.train_batch_size", "rollouts.tasks_per_step"),
        ("data.max_prompt_length", "", "prompts are not cut"),
        ("data.max_response_length", "rollouts.max_tokens"),
        ("actor_rollout_ref.model.path", "model.name"),
        ("actor_rollout_ref.model.lora_rank", "lora.r"),
        ("actor_rollout_ref.model.lora_alpha", "lora.alpha"),
        ("actor_rollout_ref.model.target_modules", "lora.targets"),
        ("actor_rollout_ref.model.enable_gradient_checkpointing", "", BY_MEMORY),
        ("actor_rollout_ref.actor.optim.lr", "algorithm.lr"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", "algorithm.batch_size"),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "algorithm.micro_batch_tokens"),
        ("actor_rollout_ref.actor.ppo_epochs", "algorithm.epochs"),
        ("actor_rollout_ref.actor.clip_ratio", "algorithm.clip"),
        ("actor_rollout_ref.actor.clip_ratio_high", "algorithm.clip_high"),
        ("actor_rollout_ref.actor.entropy_coeff", "algorithm.entropy"),
        ("actor_rollout_ref.actor.use_kl_loss", "algorithm.kl"),
        ("actor_rollout_ref.actor.kl_loss_coef", "algorithm.kl"),
        ("actor_rollout_ref.rollout.name", "sampler.kind", "engine, practicum or vllm"),
        ("actor_rollout_ref.rollout.n", "rollouts.group_size"),
        ("actor_rollout_ref.rollout.temperature", "rollouts.temperature"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization", "", BY_MEMORY),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", "", VLLM_ARGS),
        ("tensor_parallel_size", "", VLLM_ARGS),
        ("vllm_mode", "sampler.urls", VLLM_URLS),
        ("critic.optim.lr", "algorithm.value_lr"),
        ("critic.model.path", "", "the value head is on the policy"),
        ("reward_model.enable", "reward.components"),
        ("custom_reward_function.path", "reward.components", "{name: FILE.py:NAME}"),
        ("trainer.total_epochs", "steps"),
        ("trainer.total_training_steps", "steps"),
        ("trainer.save_freq", "checkpoints.every"),
        ("trainer.test_freq", "eval.every"),
        ("trainer.default_local_dir", "runs_dir"),
        ("trainer.experiment_name", "", "--name of the run"),
        ("trainer.project_name", "runs_dir"),
        ("trainer.logger", "", LOGGED),
        ("trainer.n_gpus_per_node", "hardware.processes", "or --processes N"),
        ("n_gpus_per_node", "hardware.processes", "or --processes N"),
        ("num_train_gpus", "hardware.processes", "or --processes N"),
        ("num_infer_gpus", "sampler.replicas", ON_CLUSTER),
        ("trainer.nnodes", "cluster", ON_CLUSTER),
        ("ray_kwargs", "cluster", ON_CLUSTER),
        ("ray_init.num_cpus", "cluster.worker_cpus", ON_CLUSTER),
        ("trainer.val_before_train", "eval.before"),
    ),
]

_GUIDES = [
    word
    for system, of_guide in ((TRACES, OF_TRACES), (LORA, OF_LORA))
    for kind, rows, verb in of_guide
    for word in _rows(system, kind, *rows, verb=verb)
]

WORDS: tuple[Word, ...] = (*_TAC, *_ACTIONS, *_GUIDES, *_TRL, *_ART, *_UNSLOTH, *_VERL)
