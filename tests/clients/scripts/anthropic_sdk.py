"""The anthropic library by itself."""

from anthropic import Anthropic

client = Anthropic()  # takes ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY
message = client.messages.create(
    model="tiny", max_tokens=100, messages=[{"role": "user", "content": "What is 17 + 25?"}]
)
print("".join(block.text for block in message.content if block.type == "text"))
