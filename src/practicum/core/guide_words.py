"""The words of a guide to training from an agent's traces, and of one to PPO on os_interaction.

Rows of `word_table`: what is written there, what works here, and a note.
"""

from typing import Literal, NamedTuple


class GuideWords(NamedTuple):
    """Rows of one kind."""

    kind: Literal["command", "verb", "flag", "key", "class", "method", "file"]
    rows: tuple[tuple[str, ...], ...]
    verb: str = ""
    """Of flags: the verb here that takes them."""


OF_TRACES = (
    GuideWords(
        "class",
        (
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
            ("KTOExample", "compat.KTOExample"),
            ("GRPOExample", "compat.GRPOExample"),
            ("KTODatasetBuilder", "compat.KTODatasetBuilder"),
            ("GRPODatasetBuilder", "compat.GRPODatasetBuilder"),
            ("DatasetPipeline", "compat.DatasetPipeline", "or practicum dataset build"),
            ("TrainingConfig", "compat.TrainingConfig"),
            ("RLTrainer", "compat.RLTrainer"),
            ("TrainingPipeline", "TrainingPipeline"),
            ("GGUFExporter", "compat.GGUFExporter", "or practicum export --to gguf"),
            ("OllamaDeployer", "compat.OllamaDeployer", "or practicum ollama create"),
            ("OllamaHostingProfile", "compat.OllamaHostingProfile"),
            ("ExportPipeline", "compat.ExportPipeline", "or practicum export --to ollama"),
        ),
    ),
    GuideWords(
        "method",
        (
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
    ),
    GuideWords(
        "command",
        (
            ("pip install transformers peft trl datasets torch", "pip install 'practicum[train]'"),
            (
                "from toolboxv2.mods.isaa.base.rl import TrainingPipeline",
                "from practicum.compat import TrainingPipeline",
                "and so for every name below",
            ),
            ("ollama run toolbox-isaa", "practicum ollama run toolbox-isaa"),
            (
                "RLTrainer(method='grpo') on recorded groups",
                "practicum train algorithm=offline_grpo data=traces.sqlite",
            ),
        ),
    ),
    GuideWords(
        "key",
        (
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
    ),
    GuideWords(
        "file",
        (
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
            (
                "{data_dir}/Agents/checkpoint/{agent_name}/",
                "docs/traces.md",
                "practicum traces import",
            ),
        ),
    ),
)

_CONFIG_PATH = "configs/shell_ppo.yaml"
SMALLER = "configs/shell_ppo.yaml is the same with a model of 135M"
AS_BIN = "as .safetensors; with checkpoints.adapter_bin=true as that too"
MERGES = "done at once where --lora_weights_path is on the line; it evaluates both"
MERGED = "done at once where both are on the line"
ONE_PROCESS = "--processes 2 for two GPUs"
OF_LORA = (
    GuideWords(
        "command",
        (
            (
                "python src/distributed_deployment_utils/start_server.py",
                "practicum env serve shell --lifelong",
            ),
            (
                "python src/train_lora_rl.py",
                "practicum train configs/shell_ppo.yaml --name ./lora_checkpoints",
            ),
            (
                "./scripts/train_lora_rl.sh CONFIG ./my_lora_checkpoints 20 100",
                "practicum train CONFIG --name ./my_lora_checkpoints steps=20 "
                "rollouts.tasks_per_step=100",
            ),
            (
                "python src/evaluate_lora.py --lora_weights_path ./lora_checkpoints/epoch_10",
                "practicum eval ./lora_checkpoints/epoch_10",
            ),
            (
                "./scripts/evaluate_lora.sh CONFIG ./lora_checkpoints/epoch_10 evaluate 50",
                "practicum eval ./lora_checkpoints/epoch_10 --n 50",
            ),
            (
                "./scripts/evaluate_lora.sh CONFIG ./lora_checkpoints/epoch_10 both 50",
                "practicum export ./lora_checkpoints/epoch_10 --to merged --n 50",
            ),
            (
                "curl -X POST -d '{}' http://127.0.0.1:8000/api/ping",
                "practicum env serve shell --lifelong",
                "answers it, and its factory that on 8001",
            ),
            ("accelerate launch src/train_lora_rl.py", "practicum train CONFIG", ONE_PROCESS),
        ),
    ),
    GuideWords(
        "verb",
        (
            ("train_lora_rl", "train"),
            ("evaluate_lora", "eval"),
            ("evaluate", "eval"),
            ("start_server", "practicum env serve shell --lifelong"),
            ("merge", "practicum export RUN --to merged DIR"),
        ),
    ),
    GuideWords(
        "flag",
        (
            (f"--config_path {_CONFIG_PATH}", _CONFIG_PATH),
            ("--output_dir ./lora_checkpoints", "--name ./lora_checkpoints"),
            ("--num_epochs 10", "steps=10", "a step collects, learns and saves"),
            ("--samples_per_epoch 50", "rollouts.tasks_per_step=50"),
            ("--learning_rate 1e-5", "algorithm.lr=1e-5"),
            ("--batch_size 4", "algorithm.batch_size=4"),
            ("--ppo_epochs 4", "algorithm.epochs=4"),
            ("--lora_r 16", "lora.r=16"),
            ("--lora_alpha 32", "lora.alpha=32"),
            (
                "--resume_from ./lora_checkpoints/epoch_1",
                "--resume ./lora_checkpoints/epoch_1",
                "from an earlier epoch, as a new run",
            ),
        ),
        verb="train",
    ),
    GuideWords(
        "flag",
        (
            ("--mode evaluate", "", "it is always so"),
            ("--mode merge", "practicum export RUN --to merged DIR", MERGES),
            ("--mode both", "practicum export RUN --to merged DIR", MERGES),
            ("--config_path FILE", "", "a run knows its own config"),
            ("--lora_weights_path ./lora_checkpoints/epoch_10", "./lora_checkpoints/epoch_10"),
            ("--num_samples 50", "--n 50"),
            ("--use_merged_model", "practicum eval MERGED --env shell", MERGED),
            ("--merged_model_path ./merged_model", "practicum eval MERGED --env shell", MERGED),
        ),
        verb="eval",
    ),
    GuideWords(
        "file",
        (
            ("lora_checkpoints/epoch_1/adapter_config.json", "docs/ppo-guide.md", "the same"),
            ("lora_checkpoints/epoch_1/adapter_model.bin", "docs/ppo-guide.md", AS_BIN),
            ("lora_checkpoints/epoch_1/training_stats.json", "docs/ppo-guide.md", "the same"),
            ("qwen25_32b_instruct", "configs/shell_qwen2.5_32b.yaml", SMALLER),
            ("standard.yaml", "configs/shell_ppo.yaml"),
            ("train_lora_rl.py", "src/practicum/cli/train.py"),
            ("evaluate_lora.py", "src/practicum/cli/eval.py"),
            ("start_server.py", "src/practicum/cli/env.py"),
        ),
    ),
)
