"""The table of other systems' words: commands, flags, config keys, classes, files, and ours.

docs/coming-from.md is made from it, `other_words` looks words up in it, and a test goes through
every row.
"""

from dataclasses import dataclass
from typing import Literal

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
OWN_CLASS = "a class of your own; math, shell, office and agent-company ship"
LOGGED = "every step is in metrics.jsonl"
BY_MEMORY = "chosen by the memory there is; --dry-run shows it"


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


_7B = "configs/shell_qwen2.5_7b.yaml"
_TAC = [
    *_rows(
        TAC,
        "command",
        ("./setup.sh", "make demo"),
        ("python tac_rl/validate_gpu.py", "practicum doctor"),
        ("python train.py --config configs/qwen_2_5_7b.yaml", f"practicum train {_7B}"),
        ("python train.py --config FILE --resume", "practicum train --resume RUN"),
        ("python tac_rl/monitor.py --watch", "practicum watch"),
        ("python monitor.py --run-id latest", "practicum watch latest"),
        ("python monitor.py --list", "practicum runs"),
        ("python monitor.py --generate-report", "practicum runs latest"),
    ),
    *_rows(
        TAC,
        "verb",
        ("monitor", "watch"),
        ("validate", "doctor"),
        ("validate_gpu", "doctor"),
        ("setup", "doctor"),
        ("report", "runs"),
        ("list", "runs"),
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
        ("--generate-report", "practicum runs RUN"),
        ("--report-output report.txt", "practicum runs RUN > report.txt"),
        ("--visualize", "practicum watch RUN --once"),
        verb="watch",
    ),
    *_rows(
        TAC,
        "file",
        ("configs/qwen_2_5_7b.yaml", "configs/shell_qwen2.5_7b.yaml"),
        ("configs/qwen_2_5_7b_local.yaml", "configs/shell_qwen2.5_7b.yaml"),
        ("setup.sh", "Makefile", "make demo"),
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
        ("compute_reward(result)", "compat.RewardEngine"),
    ),
    *_rows(
        TAC,
        "method",
        (
            "TrainableModel(NAME, peft_config)",
            "art.TrainableModel",
            "lora: in the config",
        ),
        ("model.execute_task(task)", "play", "play(run, task), or an agent's rollout"),
        ("model.train(trajectory_groups, rewards)", "art.TrainableModel.train"),
        ("sample_professional_tasks()", "Environment.tasks"),
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
    ),
]

_ACTIONS = [
    *_rows(
        ACTIONS,
        "command",
        ("./quick_start.sh", "make demo"),
        ("python demos/math_demo.py", "practicum train math"),
        (
            "cp examples/custom_domain_template.py my_domain.py",
            "python examples/01_own_environment.py",
        ),
        ("uvicorn api:app --port 8000", "practicum serve RUN --port 8000"),
        ("POST /solve", "practicum serve RUN", "docs/serve.md"),
        ("domains: code, writing, business, science", "practicum tasks FILE.py:Class", OWN_CLASS),
    ),
    *_rows(
        ACTIONS,
        "file",
        ("core/environment.py", "src/practicum/core/interfaces.py"),
        ("core/trainer.py", "src/practicum/compat/pipeline.py"),
        ("demos/math_demo.py", "configs/demo.yaml"),
        ("examples/custom_domain_template.py", "examples/01_own_environment.py"),
        ("docs/domain_guide.md", "docs/environments.md"),
        ("requirements.txt", "pyproject.toml"),
        ("setup.py", "pyproject.toml"),
        ("quick_start.sh", "Makefile"),
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
            "conversations, or problem and actions",
        ),
        ("await trainer.train(dataset)", "AgenticTrainer.train", "with or without await"),
        ("trainer.test_inference(problems)", "AgenticTrainer.test_inference"),
        ("env.get_valid_actions()", "DiscreteSession.actions"),
        ("env.step(action)", "DiscreteSession.act"),
        ("env.reset()", "Environment.open"),
        ("ActionResult", "Observation"),
    ),
]

_TRACES = [
    *_rows(
        TRACES,
        "class",
        ("HardwareConfig", "compat.HardwareConfig"),
        ("HardwareProfile", "compat.HardwareProfile"),
        ("ExecutionTrace", "compat.ExecutionTrace"),
        ("ToolCallTrace", "compat.ToolCallTrace"),
        ("ReasoningStep", "compat.ReasoningStep"),
        ("TraceCollector", "compat.TraceCollector", "or practicum.Recorder"),
        ("CheckpointLoader", "compat.CheckpointLoader", "or practicum traces import"),
        ("BaseReward", "compat.BaseReward"),
        ("CodeExecutionReward", "compat.CodeExecutionReward"),
        ("SyntaxValidationReward", "compat.SyntaxValidationReward"),
        ("ToolSuccessReward", "compat.ToolSuccessReward"),
        ("TaskCompletionReward", "compat.TaskCompletionReward"),
        ("EfficiencyReward", "compat.EfficiencyReward"),
        ("FormatComplianceReward", "compat.FormatComplianceReward"),
        ("LearnedReward", "compat.LearnedReward", "practicum traces label makes it"),
        ("RewardEngine", "compat.RewardEngine"),
        ("KTOExample", "core.sample.Example"),
        ("GRPOExample", "core.sample.Example"),
        ("KTODatasetBuilder", "compat.KTODatasetBuilder"),
        ("GRPODatasetBuilder", "compat.GRPODatasetBuilder"),
        ("DatasetPipeline", "compat.DatasetPipeline", "or practicum dataset build"),
        ("TrainingConfig", "compat.TrainingConfig"),
        ("RLTrainer", "compat.RLTrainer"),
        ("TrainingPipeline", "TrainingPipeline"),
        ("GGUFExporter", "compat.GGUFExporter", "or practicum export --to gguf"),
        ("OllamaDeployer", "compat.OllamaDeployer", "or practicum ollama create"),
        ("OllamaHostingProfile", "delivery.ollama.HostingProfile"),
        ("ExportPipeline", "compat.ExportPipeline", "or practicum export --to ollama"),
    ),
    *_rows(
        TRACES,
        "method",
        ("detect_hardware()", "compat.detect_hardware", "or practicum doctor"),
        ("get_ryzen_optimized_config()", "compat.get_ryzen_optimized_config"),
        ("hook_into_agent(agent, collector)", "compat.hook_into_agent"),
        ("trace.tool_calls", "compat.ExecutionTrace.tool_calls"),
        ("trace.reasoning_steps", "compat.ExecutionTrace.reasoning_steps"),
        ("trace.tasks_completed", "compat.ExecutionTrace.tasks_completed"),
        ("engine.get_binary_label(trace)", "compat.RewardEngine.get_binary_label"),
        (
            "pipeline.run_full_pipeline(deploy_ollama=True)",
            "TrainingPipeline.run_full_pipeline",
        ),
    ),
    *_rows(
        TRACES,
        "command",
        ("pip install transformers peft trl datasets torch", "pip install 'practicum[train]'"),
        ("ollama run toolbox-isaa", "practicum ollama run practicum-isaa hello"),
        (
            "RLTrainer(method='grpo') on recorded groups",
            "practicum train math algorithm=grpo",
            "it needs log-probabilities of the policy itself, so it acts; or take weighted_sft",
        ),
    ),
    *_rows(
        TRACES,
        "key",
        ("RYZEN_OPTIMIZED", "hardware.profile", "ryzen"),
        ("AUTO_DETECT", "hardware.profile", "auto"),
        ("GPU_ENABLED", "hardware.profile", "gpu"),
        ("CPU_ONLY", "hardware.profile", "cpu"),
        ("recommended_batch_size", "rollouts.tasks_per_step"),
        ("use_bf16", "model.dtype", "bfloat16"),
        ("base_model", "model.name"),
        ("agent_name", "", "--name of the run"),
        ("method", "algorithm.name"),
    ),
    *_rows(
        TRACES,
        "file",
        ("hardware_config.py", "src/practicum/compat/hardware_names.py"),
        ("data_collection.py", "src/practicum/compat/trace_pipeline.py"),
        ("reward_functions.py", "src/practicum/compat/trace_pipeline.py"),
        ("dataset_builder.py", "src/practicum/compat/trace_pipeline.py"),
        ("training.py", "src/practicum/compat/training_names.py"),
        ("export.py", "src/practicum/compat/training_names.py"),
        ("session_data, task_state of a checkpoint", "docs/traces.md", "imported"),
        ("{data_dir}/rl_traces/", "docs/traces.md", "traces.sqlite"),
        ("{data_dir}/rl_training/{agent_name}/", "docs/from-traces.md", "runs/NAME"),
        ("{data_dir}/models/", "docs/export.md", "exports/NAME"),
        ("{data_dir}/Agents/checkpoint/{agent_name}/", "docs/traces.md", "practicum traces import"),
    ),
]

_CONFIG_PATH = "configs/shell_ppo.yaml"
_LORA = [
    *_rows(
        LORA,
        "command",
        ("python src/distributed_deployment_utils/start_server.py", "practicum env serve shell"),
        ("python src/train_lora_rl.py", "practicum train configs/shell_ppo.yaml"),
        ("./scripts/train_lora_rl.sh", "practicum train configs/shell_ppo.yaml"),
        (
            "./scripts/train_lora_rl.sh CONFIG ./my_lora_checkpoints 20 100",
            "practicum train configs/shell_ppo.yaml runs_dir=my_lora_checkpoints steps=20 "
            "rollouts.tasks_per_step=100",
        ),
        ("python src/evaluate_lora.py --mode evaluate", "practicum eval RUN/epoch_10 --n 50"),
        ("python src/evaluate_lora.py --mode merge", "practicum export RUN/epoch_10 merged_model"),
        ("./scripts/evaluate_lora.sh CONFIG DIR evaluate 50", "practicum eval RUN/epoch_10 --n 50"),
        ("./scripts/evaluate_lora.sh CONFIG DIR both 50", "practicum export RUN/epoch_10 --n 50"),
        ("curl -X POST http://127.0.0.1:8000/api/ping", "practicum env serve shell --port 8000"),
    ),
    *_rows(
        LORA,
        "verb",
        ("train_lora_rl", "train"),
        ("evaluate_lora", "eval"),
        ("evaluate", "eval"),
        ("start_server", "practicum env serve shell"),
        ("merge", "practicum export RUN --to merged DIR"),
    ),
    *_rows(
        LORA,
        "flag",
        (f"--config_path {_CONFIG_PATH}", _CONFIG_PATH),
        ("--output_dir ./lora_checkpoints", "runs_dir=./lora_checkpoints"),
        ("--num_epochs 10", "steps=10", "a step collects, learns and saves"),
        ("--samples_per_epoch 50", "rollouts.tasks_per_step=50"),
        ("--learning_rate 1e-5", "algorithm.lr=1e-5"),
        ("--batch_size 4", "algorithm.batch_size=4"),
        ("--ppo_epochs 4", "algorithm.epochs=4"),
        ("--lora_r 16", "lora.r=16"),
        ("--lora_alpha 32", "lora.alpha=32"),
        ("--resume_from runs/a", "--resume runs/a", "a run, or a checkpoint such as RUN/epoch_3"),
        verb="train",
    ),
    *_rows(
        LORA,
        "flag",
        ("--mode evaluate", "", ALWAYS),
        ("--mode merge", "practicum export RUN --to merged DIR"),
        ("--mode both", "practicum export RUN --to merged DIR", "evaluates both"),
        ("--config_path FILE", "", "a run knows its own config"),
        ("--lora_weights_path runs/a/epoch_10", "runs/a/epoch_10"),
        ("--num_samples 50", "--n 50"),
        ("--use_merged_model", "practicum eval MERGED --env shell", "as any model"),
        ("--merged_model_path ./merged_model", "practicum eval MERGED --env shell"),
        verb="eval",
    ),
    *_rows(
        LORA,
        "file",
        ("lora_checkpoints/epoch_1/adapter_config.json", "docs/ppo-guide.md", "the same"),
        ("lora_checkpoints/epoch_1/adapter_model.bin", "docs/ppo-guide.md", "as .safetensors"),
        ("lora_checkpoints/epoch_1/training_stats.json", "docs/ppo-guide.md", "the same"),
        ("standard.yaml", "configs/shell_ppo.yaml", "with the guide's rewards and LoRA layers"),
        ("qwen25_32b_instruct", "configs/shell_qwen2.5_32b.yaml"),
        ("train_lora_rl.py", "src/practicum/cli/train.py"),
        ("evaluate_lora.py", "src/practicum/cli/eval.py"),
        ("start_server.py", "src/practicum/cli/env.py"),
    ),
]

_TRL = [
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
        ("--use_vllm", "", "sampling has an engine of its own"),
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
        ("actor_rollout_ref.rollout.name", "", "sampling has an engine of its own"),
        ("actor_rollout_ref.rollout.n", "rollouts.group_size"),
        ("actor_rollout_ref.rollout.temperature", "rollouts.temperature"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization", "", BY_MEMORY),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", "", "one device a run"),
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
        ("trainer.n_gpus_per_node", "", "one device a run"),
        ("trainer.nnodes", "", "one device a run"),
        ("trainer.val_before_train", "eval.before"),
    ),
]

WORDS: tuple[Word, ...] = (*_TAC, *_ACTIONS, *_TRACES, *_LORA, *_TRL, *_ART, *_UNSLOTH, *_VERL)
