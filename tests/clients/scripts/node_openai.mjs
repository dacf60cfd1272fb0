// The npm package openai: its tool runner, streams, typed results with a tool, and its errors.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ maxRetries: 0 }); // takes OPENAI_BASE_URL and OPENAI_API_KEY
const messages = [{ role: "user", content: "What is 17 + 25?" }];
const add = {
  type: "function",
  function: {
    name: "add",
    description: "Add two numbers.",
    parameters: {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" } },
      required: ["a", "b"],
    },
    function: ({ a, b }) => String(a + b),
    parse: JSON.parse,
  },
};

const features = {
  async tools() {
    const runner = client.chat.completions.runTools({ model: "tiny", messages, tools: [add] });
    return await runner.finalContent();
  },
  async streaming() {
    const stream = await client.chat.completions.create({ model: "tiny", messages, stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  async typed() {
    const form = zodResponseFormat(z.object({ answer: z.number() }), "result");
    const runner = client.chat.completions.runTools({
      model: "tiny",
      messages,
      tools: [add],
      response_format: form,
    });
    return String(JSON.parse(await runner.finalContent()).answer);
  },
  async errors() {
    await client.chat.completions.create({ model: "tiny", messages });
  },
};

console.log(await features[process.argv[2]]());
