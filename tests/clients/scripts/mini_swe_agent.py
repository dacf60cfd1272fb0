"""mini-swe-agent, which works in a shell until a command says that the task is done."""

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

agent = DefaultAgent(
    LitellmModel(model_name="openai/tiny", cost_tracking="ignore_errors"),
    LocalEnvironment(),
    system_template="Use the shell.",
    instance_template="{{task}}",
    step_limit=4,
)
print(agent.run("What is 17 + 25?")["submission"].strip())
