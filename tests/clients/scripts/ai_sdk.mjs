// Vercel's AI SDK with one of three providers: tools, streams, typed results with a tool, errors.
import { anthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { openai } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const compatible = createOpenAICompatible({
  name: "practicum",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
  supportsStructuredOutputs: true,
});
const models = { openai, anthropic, compatible };
const [feature, provider] = process.argv.slice(2);
const asked = {
  model: models[provider]("tiny"),
  prompt: "What is 17 + 25?",
  maxRetries: 0,
  maxOutputTokens: 200,
};
const add = tool({
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a + b,
});
const withTool = { ...asked, tools: { add }, stopWhen: stepCountIs(4) };

const features = {
  async tools() {
    return (await generateText(withTool)).text;
  },
  async streaming() {
    let text = "";
    for await (const piece of streamText(asked).textStream) text += piece;
    return text;
  },
  async typed() {
    const output = Output.object({ schema: z.object({ answer: z.number() }) });
    return String((await generateText({ ...withTool, output })).output.answer);
  },
  async errors() {
    await generateText(asked);
  },
};

console.log(await features[feature]());
