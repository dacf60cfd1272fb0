"use strict";

const $ = (id) => document.getElementById(id);
const conversation = []; // what is sent: {role, content}
let shown = null; // the answer whose trace is shown

function make(tag, { text = "", kind = "", title = "" } = {}) {
  const made = document.createElement(tag);
  made.textContent = text; // never innerHTML: models and users write what they like
  if (kind) made.className = kind;
  if (title) made.title = title;
  return made;
}

function headers() {
  const sent = { "content-type": "application/json" };
  if ($("key").value) sent.authorization = `Bearer ${$("key").value}`;
  sent["x-practicum-record"] = $("consent").checked ? "yes" : "no";
  return sent;
}

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(path, { headers: headers(), ...options });
  if (response.ok) return response;
  let said = `the server answered ${response.status}`;
  try {
    const { error } = await response.json();
    said = error.message || error || said;
  } catch { /* no JSON: the status says it */ }
  throw Object.assign(new Error(said), { status: response.status });
}

// Why feedback on an answer would not be kept; empty where it would.
function whyNotKept(response) {
  const told = response.headers.get("x-practicum-recorded");
  if (told === null) return "this server records nothing, so feedback is not kept";
  return told === "yes" ? "" : "not recorded: tick \u201cmay be recorded\u201d above and ask again to give feedback";
}

async function listModels() {
  try {
    const { data } = await (await ask("/v1/models")).json();
    const before = $("model").value;
    $("model").replaceChildren(...data.map(({ id }) => {
      const option = make("option", { text: id });
      option.value = id;
      return option;
    }));
    if (data.some(({ id }) => id === before)) $("model").value = before;
    $("state").textContent = "ready";
  } catch (error) {
    $("state").textContent = error.message;
    if (error.status === 503) setTimeout(listModels, 2000); // still loading
  }
}

// Server-sent events: blocks of "data: ..." lines, apart by an empty line.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trim()).join("\n");
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

function showFacts(facts) {
  $("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) =>
    [make("dt", { text: name }), make("dd", { text: String(value ?? "") })]));
}

function tokenSpan({ token, logprob }) {
  const p = Math.exp(logprob);
  const step = [0.1, 0.3, 0.6, 0.9].filter((edge) => p >= edge).length;
  return make("span", { text: token, kind: `p${step}`, title: `probability ${p.toFixed(3)}` });
}

function showAnswer(answer) {
  shown = answer;
  for (const item of $("messages").children) item.classList.toggle("shown", item === answer.item);
  showFacts(answer.facts);
  const tokens = make("div", { kind: "tokens" });
  tokens.append(...answer.tokens.map(tokenSpan));
  $("trace").replaceChildren(tokens);
  showFeedback(answer);
}

function showFeedback(answer) {
  $("feedback").hidden = !answer.id;
  for (const part of $("feedback").querySelectorAll("button, input")) part.disabled = Boolean(answer.why);
  $("feedback-said").textContent = answer.said || answer.why || "";
}

function addMessage(role, text) {
  const item = make("li", { text, kind: role });
  $("messages").append(item);
  item.scrollIntoView({ block: "end" });
  return item;
}

async function stream(answer, started) {
  const response = await ask("/v1/chat/completions", {
    model: $("model").value, messages: conversation, stream: true, logprobs: true,
    stream_options: { include_usage: true },
    temperature: Number($("temperature").value), max_tokens: Number($("max-tokens").value),
  });
  answer.why = whyNotKept(response);
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message || "the answer broke off");
    answer.id = event.id;
    const choice = event.choices?.[0];
    answer.item.textContent += choice?.delta?.content ?? "";
    answer.tokens.push(...(choice?.logprobs?.content ?? []));
    Object.assign(answer.facts, { model: event.model, weights: event.system_fingerprint });
    if (choice?.finish_reason) answer.facts["ended by"] = choice.finish_reason;
    if (event.usage) {
      answer.facts.tokens = `${event.usage.prompt_tokens} read, ${event.usage.completion_tokens} written`;
    }
    answer.facts.seconds = ((performance.now() - started) / 1000).toFixed(2);
    if (shown === answer) showAnswer(answer);
    answer.item.scrollIntoView({ block: "end" });
  }
}

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("prompt").value;
  if (!text.trim() || $("send").disabled) return;
  $("send").disabled = true;
  $("prompt").value = "";
  conversation.push({ role: "user", content: text });
  addMessage("user", text);
  const answer = { item: addMessage("assistant", ""), tokens: [], facts: {}, id: "" };
  answer.item.addEventListener("click", () => showAnswer(answer));
  showAnswer(answer);
  try {
    await stream(answer, performance.now());
    conversation.push({ role: "assistant", content: answer.item.textContent });
  } catch (error) {
    conversation.pop(); // what was not answered is not part of the conversation
    $("prompt").value = text;
    answer.item.className = "error";
    answer.item.textContent = error.message;
  }
  $("send").disabled = false;
  $("prompt").focus();
});

$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
});

$("clear").addEventListener("click", () => {
  conversation.length = 0;
  $("messages").replaceChildren();
  $("prompt").focus();
});

function showSolved(solved, why) {
  const verdict = solved.success ? "solved" : "unsolved";
  const told = `${solved.success ? "solved" : "not solved"}, reward ${solved.reward ?? "unknown"}`;
  $("solution").replaceChildren(
    make("p", { text: solved.solution || "no solution", kind: "answer" }),
    make("p", { text: solved.failure || told, kind: verdict }),
  );
  showFacts({ model: solved.model, weights: solved.system_fingerprint, environment: solved.env, trace: solved.trace_id });
  const table = make("table");
  const head = make("tr");
  head.append(...["turn", "action", "paid", "then"].map((text) => make("th", { text })));
  table.append(head, ...solved.actions.map((action, at) => {
    const row = make("tr");
    const paid = solved.rewards[at];
    row.append(make("td", { text: String(at + 1) }), make("td", { text: action }),
      make("td", { text: paid === undefined ? "" : paid.toFixed(1), kind: "pay" }),
      make("td", { text: solved.observations?.[at] ?? "", kind: "seen" }));
    return row;
  }));
  $("trace").replaceChildren(table);
  shown = { id: solved.trace_id, said: "", why };
  showFeedback(shown);
}

$("pose").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("solve-it").disabled = true;
  $("solution").replaceChildren(make("p", { text: "working on it", kind: "quiet" }));
  try {
    const body = { problem: $("problem").value, model: $("model").value };
    if ($("env").value) body.env = $("env").value;
    const response = await ask("/solve", body);
    showSolved(await response.json(), whyNotKept(response));
  } catch (error) {
    $("solution").replaceChildren(make("p", { text: error.message, kind: "error" }));
  }
  $("solve-it").disabled = false;
});

async function giveFeedback(said) {
  const answer = shown;
  if (!answer?.id) return;
  try {
    await ask("/feedback", { id: answer.id, ...said });
    answer.said = "thank you, that is kept with the trace";
  } catch (error) {
    answer.said = error.message;
  }
  if (shown === answer) $("feedback-said").textContent = answer.said;
}

for (const button of document.querySelectorAll("[data-thumbs]")) {
  button.addEventListener("click", () => giveFeedback({ thumbs: button.dataset.thumbs }));
}

$("feedback").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("correction").value.trim()) giveFeedback({ correction: $("correction").value });
});

for (const name of ["chat", "solve"]) {
  $(`tab-${name}`).addEventListener("click", () => {
    for (const other of ["chat", "solve"]) {
      $(other).hidden = other !== name;
      $(`tab-${other}`).setAttribute("aria-selected", String(other === name));
    }
  });
}

$("key").value = sessionStorage.getItem("practicum-key") || "";
$("key").addEventListener("change", () => {
  sessionStorage.setItem("practicum-key", $("key").value);
  listModels();
});
listModels();
