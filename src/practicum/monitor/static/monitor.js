// The front end: charts, what is live, tokens and labelling keys. Text of models and users is only ever
// put in as text; there is nothing here that makes markup out of it.

import { drawCharts } from "./charts.js";

const body = document.body;
const live = document.getElementById("live");

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(old.id);
    if (!next || old.contains(document.activeElement)) continue;
    old.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
  }
  const charts = document.getElementById("charts");
  const count = (root) => root.querySelectorAll("[data-chart]").length;
  if (charts && count(charts) !== count(fresh)) {
    charts.replaceChildren(...fresh.getElementById("charts").childNodes);
  }
  await drawCharts();
  live.textContent = `live · ${new Date().toLocaleTimeString()}`;
}

function follow() {
  if (!body.dataset.events) return;
  const events = new EventSource(body.dataset.events);
  let busy = false, again = false;
  const look = async () => {
    if (busy) { again = true; return; }
    busy = true;
    do { again = false; await refresh().catch(() => {}); } while (again);
    busy = false;
  };
  // On connecting too: something may have changed between the page and its stream.
  events.addEventListener("live", look);
  events.addEventListener("changed", look);
  events.addEventListener("error", () => { live.textContent = "not live: the monitor does not answer"; });
  addEventListener("pagehide", () => events.close());
}

function tokens() {
  const box = document.getElementById("tokens");
  if (!box) return;
  const told = document.getElementById("token");
  const all = [...box.querySelectorAll(".t")];
  let at = -1;
  const show = (index) => {
    if (index < 0 || index >= all.length) return;
    all[at]?.classList.remove("on");
    at = index;
    const token = all[at], d = token.dataset;
    token.classList.add("on");
    const p = Math.exp(Number(d.l));
    told.textContent = `${JSON.stringify(token.textContent)} (token ${d.i}): log-probability ${d.l}, probability `
      + `${p.toFixed(3)}${d.k ? `, before the cut ${(Number(d.l) + Number(d.k)).toFixed(4)}` : ""}`
      + `${d.c ? `, ${d.c} allowed` : ""}${token.classList.contains("m") ? "" : ", not learned from"}`;
    token.scrollIntoView({ block: "nearest" });
  };
  box.addEventListener("click", (event) => show(all.indexOf(event.target.closest(".t"))));
  box.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -at, End: all.length - 1 - at }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    show(Math.max(0, at + move));
  });
  for (const choice of document.querySelectorAll("input[name=colour]")) {
    choice.addEventListener("change", () => {
      box.classList.remove("logprob", "mask", "choices", "advantage");
      box.classList.add(choice.value);
    });
  }
}

function labelKeys() {
  const form = document.getElementById("label");
  if (!form) return;
  addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = [...form.querySelectorAll("[data-key]")].find((one) => one.dataset.key === event.key);
    if (button) { event.preventDefault(); form.requestSubmit(button); }
  });
}

tokens();
labelKeys();
await drawCharts();
follow();
