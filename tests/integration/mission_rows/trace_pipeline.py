"""What a report on a pipeline from an agent's traces to a deployed model names."""

import json
from pathlib import Path
from typing import Any

from tests.integration.mission_row import Row

EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"
QUESTIONS = ("How many files are there?", "Who is Ada?", "What is 2 + 2?", "When is it?")


def _trace(number: int) -> dict[str, Any]:
    """A run of the agent; one in two went well."""
    good = number % 2 == 0
    call = {"tool_name": "look_up", "arguments": {}, "success": good, "result": "x", "error": ""}
    return {
        "trace_id": f"t{number}",
        "timestamp": "2026-01-03T12:00:00",
        "user_query": QUESTIONS[number // 2],
        "tool_calls": [call],
        "reasoning_steps": [{"step_type": "think", "content": "I look it up."}],
        "final_response": "It is 4." if good else "<answer>4</answer>",
        "tasks_completed": int(good),
        "tasks_failed": int(not good),
        "reward_score": float(good),
    }


ROWS_FILE = "theirs/rows.jsonl"
FILES = {
    **{
        f"theirs/rl_traces/2026-01-0{3 + n // 4}/t{n}.json": json.dumps(_trace(n)) for n in range(8)
    },
    **{
        f"theirs/checkpoint/{n}.json": (EXAMPLES / f"toolbox_checkpoint_{n}.json").read_text()
        for n in (1, 2)
    },
    ROWS_FILE: "".join(
        json.dumps(
            {"prompt": f"q{n // 2}", "completion": f"a{n}", "label": n % 2 == 1, "reward": n % 2}
        )
        + "\n"
        for n in range(8)
    ),
}

NAMES = (
    *("HardwareConfig", "HardwareProfile", "detect_hardware", "get_ryzen_optimized_config"),
    *("ExecutionTrace", "ToolCallTrace", "ReasoningStep", "TraceCollector", "CheckpointLoader"),
    *("hook_into_agent", "BaseReward", "CodeExecutionReward", "SyntaxValidationReward"),
    *("ToolSuccessReward", "TaskCompletionReward", "EfficiencyReward", "FormatComplianceReward"),
    *("LearnedReward", "RewardEngine", "KTOExample", "GRPOExample", "KTODatasetBuilder"),
    *("GRPODatasetBuilder", "DatasetPipeline", "TrainingConfig", "RLTrainer", "TrainingPipeline"),
    *("GGUFExporter", "OllamaDeployer", "OllamaHostingProfile", "ExportPipeline"),
)
AGENT = """
from pathlib import Path
from practicum import compat

class Agent:
    async def a_run(self, query):
        return await self.arun_function("look_up", query=query)
    async def arun_function(self, name, query):
        return "4"

agent, collector = Agent(), compat.TraceCollector("hooked.sqlite")
compat.hook_into_agent(agent, collector)
print(await agent.a_run("What is 2 + 2?"))
from practicum.store.trace_store import SqliteTraceStore
with SqliteTraceStore(Path("hooked.sqlite")) as store:
    trace = compat.ExecutionTrace.of(list(store.query())[0])
print("hooked", trace.user_query, trace.tool_calls[0].tool_name, trace.final_response)
"""


def _scored(reward: str, **trace: object) -> str:
    fields = ", ".join(f"{key}={value}" for key, value in trace.items())
    made = f"compat.ExecutionTrace(user_query='q', {fields})"
    return f"from practicum import compat\nprint('scored', compat.{reward}().compute({made}))"


def _code(*lines: str, language: str = "bash") -> str:
    return repr("\n".join([f"```{language}", *lines, "```"]))


TINY = "overrides=['hardware.threads=1']"
QUANTS = ("Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16")

ROWS = [
    Row(
        says="every component by one import",
        python=f"from practicum.compat import {', '.join(NAMES)}\nprint('all', {len(NAMES)})",
        sees="all 31",
    ),
    *(
        Row(
            says=name,
            python=f"from practicum import compat\nprint(compat.{name}.__name__)",
            sees="",
        )
        for name in NAMES
    ),
    Row(
        says="from toolboxv2.mods.isaa.base.rl import ...",
        file="docs/coming-from.md",
        sees=r"toolboxv2.mods.isaa.base.rl import TrainingPipeline` \| `from practicum.compat",
    ),
    Row(
        says="HardwareConfig as detected",
        python="from practicum import compat\n"
        "print(compat.HardwareConfig() == compat.detect_hardware())",
        sees="True",
    ),
    Row(
        says="HardwareConfig with the settings that are given",
        python="from practicum import compat\n"
        "found = compat.HardwareConfig(cpu_name='AMD Ryzen 9 5950X', cpu_cores=16, cpu_threads=32,"
        " ram_gb=40.0, has_avx2=True, recommended_batch_size=2, lora_r=16, lora_alpha=32,"
        " num_generations=6, use_bf16=True)\n"
        "print(found.cpu_name, found.num_generations, found.get_lora_config()['r'])",
        sees="AMD Ryzen 9 5950X 6 16",
    ),
    Row(
        says="the Ryzen's derived settings",
        python="from practicum import compat\nc = compat.get_ryzen_optimized_config()\n"
        "print(c.recommended_batch_size, c.lora_r, c.lora_alpha, c.num_generations, c.use_bf16)",
        sees="2 16 32 6 True",
    ),
    *(
        Row(says=name, typed=f"doctor --profile {ours}", sees="lora.r")
        for name, ours in {
            "RYZEN_OPTIMIZED": "ryzen",
            "AUTO_DETECT": "auto",
            "CPU_ONLY": "cpu",
        }.items()
    ),
    Row(
        says="GPU_ENABLED",
        python="import practicum\nfrom practicum import compat\ntry:\n"
        "    print(compat.detect_hardware(compat.HardwareProfile.GPU_ENABLED).profile)\n"
        "except practicum.UserError as none_is_here:\n    print(none_is_here)",
        sees="gpu",
    ),
    Row(
        says="CPU, memory, GPU and AVX are detected",
        python="from practicum import compat\nc = compat.detect_hardware()\n"
        "print(c.cpu_cores > 0, c.ram_gb > 0, type(c.has_avx2).__name__, repr(c.gpu_name))",
        sees="True True bool '",
    ),
    Row(
        says="LoRA, training arguments and GRPO config of the hardware",
        python="from practicum import compat\nc = compat.detect_hardware('cpu')\n"
        "print(sorted(c.get_lora_config()), sorted(c.get_grpo_config()),"
        " sorted(c.get_training_args()))",
        sees="alpha.*group_size.*rollouts",
    ),
    Row(
        says="hook_into_agent records a run",
        python=AGENT,
        sees="hooked What is 2 . 2. look_up 4",
    ),
    Row(
        says="an agent without a_run",
        python="from practicum import compat\ncompat.hook_into_agent(object())",
        sees="has no method a_run to hook into; wrap .* with practicum.record",
        is_answered=True,
    ),
    Row(
        says="traces as JSON in date folders",
        typed="traces import theirs/rl_traces --store dated.sqlite",
        sees="8",
    ),
    Row(
        says="traces written as JSON",
        typed="traces export written.json --store runs/first/traces.sqlite",
        sees="written",
    ),
    Row(
        says="checkpoints that overlap are read once",
        python="from practicum import compat\n"
        "print(len(compat.CheckpointLoader('theirs/checkpoint').load_traces()), 'runs')",
        sees="[1-9] runs",
    ),
    Row(
        says="session_data and task_state of a checkpoint",
        file="docs/coming-from.md",
        sees=r"session_data, task_state of a checkpoint` \| `docs/traces.md`; imported",
    ),
    Row(
        says="reasoning_steps",
        python="from practicum import compat\n"
        "t = compat.ExecutionTrace(user_query='q', reasoning_steps=(compat.ReasoningStep("
        "content='because'),))\nprint(compat.ExecutionTrace.of(t.episode).user_query,"
        " t.reasoning_steps[0].content)",
        sees="q because",
    ),
    Row(
        says="tool_calls, tasks_completed and tasks_failed",
        python=_scored("TaskCompletionReward", tasks_completed=3, tasks_failed=1),
        sees="scored 0.75",
    ),
    Row(
        says="code is run, in a sandbox with a time limit",
        python="from practicum import compat\n"
        "run = compat.CodeExecutionReward(timeout_s=2, turns='all')\n"
        "def scored(*code):\n"
        "    text = '\\n'.join(['```python', *code, '```'])\n"
        "    return run.compute(compat.ExecutionTrace(user_query='q', final_response=text))\n"
        "print('scored', scored('print(1)'), scored('1 / 0'), scored('while True: pass'))",
        sees="scored 1.0 0.0 0.0",
        mark="slow",
    ),
    Row(
        says="shell is run too",
        python=_scored("CodeExecutionReward", final_response=_code("true")),
        sees="scored 1.0",
        mark="slow",
    ),
    Row(
        says="Python is parsed",
        python=_scored("SyntaxValidationReward", final_response=_code("x = ", language="python")),
        sees="scored 0.0",
    ),
    Row(
        says="valid shell is told from",
        python=_scored("SyntaxValidationReward", final_response=_code("if true; then ls; fi")),
        sees="scored 1.0",
    ),
    Row(
        says="broken shell",
        python=_scored("SyntaxValidationReward", final_response=_code("if true; then")),
        sees="scored 0.0",
    ),
    Row(
        says="ToolSuccessReward looks at what calls brought",
        python=_scored(
            "ToolSuccessReward",
            tool_calls="(compat.ToolCallTrace(tool_name='a'), compat.ToolCallTrace(tool_name='b',"
            " success=False, error='no'))",
        ),
        sees="scored 0.5",
    ),
    Row(
        says="EfficiencyReward counts tokens",
        python=_scored("EfficiencyReward", final_response="'x' * 20_000"),
        sees="scored 0.5",
    ),
    Row(
        says="EfficiencyReward counts calls",
        python=_scored(
            "EfficiencyReward", tool_calls="(compat.ToolCallTrace(tool_name='a'),) * 10"
        ),
        sees="scored 0.5",
    ),
    Row(
        says="FormatComplianceReward against XML",
        python=_scored("FormatComplianceReward", final_response="'<answer>4</answer>'"),
        sees="scored 0.0",
    ),
    Row(
        says="LearnedReward before anything was labelled",
        python=_scored("LearnedReward", final_response="'4'"),
        sees="scored None",
    ),
    Row(
        says="labels of people",
        typed="traces label --help",
        sees="labeler",
    ),
    Row(
        says="own rewards by compute",
        python="from practicum import compat\n"
        "class Short(compat.BaseReward):\n"
        "    name = 'short'\n"
        "    def compute(self, trace):\n"
        "        return float(len(trace.final_response) < 9)\n"
        "print(compat.RewardEngine([Short()]).compute_all(compat.ExecutionTrace(user_query='q')))",
        sees="'short': 1.0",
    ),
    Row(
        says="RewardEngine combines all seven",
        python="from practicum import compat\n"
        "print('seven', *sorted(reward.name for reward in compat.RewardEngine().rewards))",
        sees="seven code_execution efficiency format learned syntax task_completion tool_success",
    ),
    Row(
        says="binary and soft rewards",
        python="from practicum import compat\nengine = compat.RewardEngine()\n"
        "trace = compat.ExecutionTrace(user_query='q', final_response='4', tasks_completed=1,"
        " tool_calls=(compat.ToolCallTrace(tool_name='a'),))\n"
        "print(engine.get_binary_label(trace), 0.9 < engine.compute_combined(trace) < 1)",
        sees="True True",
    ),
    Row(
        says="rewards normalised within a group",
        python="from practicum import compat\nengine = compat.RewardEngine()\n"
        "made = [compat.ExecutionTrace(user_query='q', tasks_completed=n, tasks_failed=1 - n)"
        " for n in (1, 0)]\nprint([round(one, 3) for one in engine.compute_for_group(made)])",
        sees=r"\[1.0, -1.0\]",
    ),
    Row(
        says="KTOExample rows",
        python=f"from practicum import compat\n"
        f"print(compat.KTODatasetBuilder('{ROWS_FILE}').examples()[0])",
        sees="KTOExample.prompt='q0', completion='a0', label=False",
    ),
    Row(
        says="GRPOExample rows",
        python=f"from practicum import compat\n"
        f"print(compat.GRPODatasetBuilder('{ROWS_FILE}').examples()[0])",
        sees=r"GRPOExample.prompt='q0', completions=\('a0', 'a1'\), rewards=\(0.0, 1.0\)",
    ),
    Row(
        says="positive and negative examples are balanced",
        typed=f"dataset build --kind kto --from {ROWS_FILE} --out balanced --balance weight",
        sees="8",
    ),
    Row(
        says="a dataset of HuggingFace",
        python="import datasets\nfrom practicum import compat\n"
        f"folder = compat.KTODatasetBuilder('{ROWS_FILE}').export('hub-rows')\n"
        "print(datasets.load_dataset(str(folder), split='train').num_rows, 'rows')",
        sees="8 rows",
        mark="slow",
    ),
    *(
        Row(
            says=f"export as {form}",
            python="from pathlib import Path\nfrom practicum import compat\n"
            f"compat.DatasetPipeline('{ROWS_FILE}').export('as-{form}', '{form}')\n"
            f"print(*[path.name for path in Path('as-{form}').iterdir()])",
            sees=rf"train\.{form}\b",
        )
        for form in ("jsonl", "json")
    ),
    Row(
        says="statistics",
        python=f"from practicum import compat\n"
        f"print(compat.DatasetPipeline('{ROWS_FILE}').get_statistics())",
        sees="'train': 8",
    ),
    Row(
        says="KTO on recorded answers",
        python="from practicum import compat\n"
        "config = compat.TrainingConfig(base_model='tiny', method='kto', num_steps=1)\n"
        f"run = compat.RLTrainer(config).train('{ROWS_FILE}', quiet=True)\nprint(run.metrics[-1])",
        sees="'stage': 'kto'",
    ),
    Row(
        says="GRPO on recorded groups",
        python="from practicum import compat\n"
        "config = compat.TrainingConfig(base_model='tiny', method='grpo', num_steps=1)\n"
        f"run = compat.RLTrainer(config).train('{ROWS_FILE}', quiet=True)\nprint(run.metrics[-1])",
        sees="'stage': 'offline_grpo'",
    ),
    Row(
        says="GRPO on recorded groups, as a command",
        typed=f"train algorithm=offline_grpo data={ROWS_FILE} model=tiny steps=1 "
        "hardware.threads=1 --name recorded",
        sees=r"8 of the answers have no log-probabilities [\s\S]*takes them to be sampled by",
    ),
    Row(
        says="recorded log-probabilities weigh the answers",
        file="docs/algorithms.md",
        sees="Log-probabilities are recorded where Practicum sampled the answer",
    ),
    Row(
        says="LoRA by PEFT",
        python="import peft\nfrom pathlib import Path\n"
        "found = sorted(Path('runs/first/checkpoints').glob('step_*'))[-1]\n"
        "print(peft.PeftConfig.from_pretrained(str(found)).peft_type.value)",
        sees="LORA",
    ),
    Row(
        says="gradient checkpointing",
        typed="train math model=tiny --gradient_checkpointing --dry-run",
        sees="not needed .chosen by the memory|is not needed here",
    ),
    Row(
        says="RLTrainer.save_model merges",
        python="from practicum import compat\n"
        "config = compat.TrainingConfig(base_model='tiny', method='sft', num_steps=1)\n"
        f"trainer = compat.RLTrainer(config)\ntrainer.train('{ROWS_FILE}', quiet=True)\n"
        "print(trainer.save_model('merged-by-trainer', merge=True))",
        sees="merged-by-trainer",
        mark="slow",
    ),
    Row(
        says="training statistics",
        typed="runs runs/first",
        sees="reward",
    ),
    Row(
        says="GGUF",
        typed="export --help",
        sees="gguf: llama.cpp",
    ),
    *(Row(says=f"quantisation {quant}", typed="export --help", sees=quant) for quant in QUANTS),
    Row(
        says="llama.cpp installs itself",
        file="docs/export.md",
        sees="llama.cpp",
    ),
    Row(
        says="hosting profiles",
        python="from practicum.delivery.ollama import choose_profile\n"
        "for name in ('ryzen', 'auto'):\n"
        "    found = choose_profile(name, cores=16, memory_bytes=40 << 30, has_gpu=False,"
        " longest=32768)\n    print(found.variables['OLLAMA_NUM_PARALLEL'], found.threads)",
        sees="4 15 4 16",
    ),
    Row(
        says="a Modelfile with a system prompt",
        python="from practicum.delivery.ollama import Modelfile, choose_profile\n"
        "profile = choose_profile('auto', cores=4, memory_bytes=8 << 30, has_gpu=False,"
        " longest=4096)\nprint(Modelfile(file='a.gguf', template='t', stops=['</s>'],"
        " profile=profile, parameters={'temperature': 0.7}, licence='MIT',"
        " system='You are isaa.').write())",
        sees=r'FROM ./a.gguf [\s\S]*SYSTEM """You are isaa."""',
    ),
    Row(
        says="OllamaDeployer without Ollama",
        python="from pathlib import Path\nfrom practicum import compat\n"
        "Path('modelfile').mkdir(exist_ok=True)\nPath('modelfile/Modelfile').write_text('FROM x')\n"
        "compat.OllamaDeployer().create_model('toolbox-isaa', 'modelfile')",
        sees="ollama is not on this machine; install it .*ollama create toolbox-isaa",
        is_answered=True,
    ),
    Row(
        says="ollama run toolbox-isaa",
        typed="ollama run toolbox-isaa",
        sees="ollama is not on this machine; install it from https://ollama.com",
        is_answered=True,
    ),
    *(
        Row(says=path, file="docs/from-traces.md", sees=rf"\| `{path}` \| .*{ours}")
        for path, ours in {
            "{data_dir}/rl_traces/": "traces.sqlite",
            "{data_dir}/rl_training/{agent_name}/": "runs/isaa",
            "{data_dir}/models/": "exports/",
            "{data_dir}/Agents/checkpoint/{agent_name}/": "practicum traces import",
        }.items()
    ),
    Row(
        says="pip install transformers peft trl datasets torch",
        file="docs/coming-from.md",
        sees=r"peft trl datasets torch` \| `pip install 'practicum\[train\]'",
    ),
    Row(says="psutil is optional", typed="doctor", sees="CPU|cores"),
    Row(
        says="next: a labeler that suggests",
        typed="learn --help",
        sees="learn",
    ),
    Row(
        says="next: evaluation of trained models",
        typed="eval runs/first --n 2 --against base",
        sees="difference",
    ),
    Row(
        says="next: online GRPO",
        typed="train math model=tiny algorithm=grpo --dry-run",
        sees="name: grpo",
    ),
    Row(
        says="next: a curriculum",
        typed="train math model=tiny curriculum=adaptive --dry-run",
        sees="adaptive",
    ),
    *(
        Row(says=file, file="docs/coming-from.md", sees=rf"`{file}` \| `src/practicum/compat/")
        for file in (
            *("hardware_config.py", "data_collection.py", "reward_functions.py"),
            *("dataset_builder.py", "training.py", "export.py"),
        )
    ),
    Row(
        says="the quick start",
        python="from practicum.compat import TrainingPipeline\n"
        "pipeline = TrainingPipeline(agent_name='isaa', base_model='tiny', method='grpo')\n"
        f"results = pipeline.run_full_pipeline(deploy_ollama=True, steps=1, {TINY},"
        " traces='theirs/rl_traces')\n"
        "print(results['stages'], results['deployment']['tag'], results['deployment']['done'])",
        sees=r"\['offline_grpo'\] toolbox-isaa False",
        mark="slow",
    ),
    Row(
        says="the quick start before there are traces",
        python="from practicum.compat import TrainingPipeline\n"
        "TrainingPipeline(agent_name='isaa', base_model='tiny', method='grpo',"
        " store='none.sqlite').run_full_pipeline(deploy_ollama=True)",
        sees="there are no traces of 'isaa': none.sqlite is not there; record",
        is_answered=True,
    ),
]
