"""The openai library by itself: chat completions, streamed."""

from openai import OpenAI

client = OpenAI()  # takes OPENAI_BASE_URL and OPENAI_API_KEY
stream = client.chat.completions.create(
    model="tiny", messages=[{"role": "user", "content": "What is 17 + 25?"}], stream=True
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
