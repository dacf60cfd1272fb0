// The npm package @anthropic-ai/sdk: its tool runner, streams, typed results, and its errors.
import Anthropic from "@anthropic-ai/sdk";
import { betaZodOutputFormat, betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { z } from "zod";

const client = new Anthropic({ maxRetries: 0 }); // takes ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY
const asked = {
  model: "tiny",
  max_tokens: 200,
  messages: [{ role: "user", content: "What is 17 + 25?" }],
};
const add = betaZodTool({
  name: "add",
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
});
const textOf = (message) =>
  message.content.map((block) => (block.type === "text" ? block.text : "")).join("");

const features = {
  async tools() {
    return textOf(await client.beta.messages.toolRunner({ ...asked, tools: [add] }));
  },
  async streaming() {
    let text = "";
    const stream = client.messages.stream(asked).on("text", (piece) => (text += piece));
    await stream.finalMessage();
    return text;
  },
  async typed() {
    const format = betaZodOutputFormat(z.object({ answer: z.number() }));
    const runner = client.beta.messages.toolRunner({
      ...asked,
      tools: [add],
      output_config: { format },
    });
    return String(JSON.parse(textOf(await runner)).answer);
  },
  async errors() {
    await client.messages.create(asked);
  },
};

console.log(await features[process.argv[2]]());
