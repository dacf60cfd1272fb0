"""The openai library by itself: a Response, and one that goes on from it."""

from openai import OpenAI

client = OpenAI()
first = client.responses.create(model="tiny", instructions="Be brief.", input="Add 17 and 25.")
second = client.responses.create(model="tiny", input="Sure?", previous_response_id=first.id)
print(second.output_text)
