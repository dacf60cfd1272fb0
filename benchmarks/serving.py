"""`practicum serve` under load: swaps without loss, and its speed beside two other servers.

    python benchmarks/serving.py --seconds 60
    python benchmarks/serving.py --part swaps --clients 32 --seconds 60 --swaps 20
    python benchmarks/serving.py --part speed --clients 8 32 --seconds 60 --json

Every server is a process of its own, and so are the clients, who ask again as soon as they are
answered. All share the machine's processors.

Swaps: three models over one base, each a folder `served/NAME` with two versions, are promoted from
one to the other in turn while the clients ask all three. Every answer that comes back is then
sampled again, with its seed, by the adapter of its fingerprint alone, in this process: another
log-probability (by more than 1e-4) is a mixed answer. A swap's time is the server's own, from the
moment it sees the link changed.

Speed: the same requests (chat, no streaming) go to `practicum serve MODEL`, to `transformers serve`
on the same folder, and to llama.cpp's server (`xllamacpp`) on the same weights as a .gguf file in
float32 and in F16, one server after the other. Tokens are those that the answers say they have.

Exit status 1 where a request failed, an answer was mixed, or a swap took a second or more.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from cases import Case
from gateway_wire import Json, spread_ms
from report import describe, print_table

from practicum.core.config.config_sections import LoraConfig
from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.engine.compute_thread import pin_threads
from practicum.engine.models.download import silent
from practicum.engine.models.gguf_writing import write_gguf
from practicum.engine.models.llama_cpp import quantise
from practicum.engine.models.loading import locate_model
from practicum.engine.models.lora import attach_adapter, policy_fingerprint, save_adapter, trainable
from practicum.engine.policy import load_adapted_sampler, load_for_policy

HERE = Path(__file__).parent
START_S = 180
CLOSE = 1e-4
SWAPPED = re.compile(r"is now \S+ from \S+ \(([0-9.]+) s\)")


@contextmanager
def server(words: list[str], said: Path, *, ends_by_input: bool = False) -> Iterator[str]:
    """A server's process; gives the line that it prints first, where it prints any."""
    with said.open("w") as beside:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=beside, text=True
        )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process.stdout.readline().strip() if ends_by_input or "serve" in words[3:4] else ""
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def practicum_words(models: list[str]) -> list[str]:
    return [sys.executable, "-m", "practicum.cli.main", "serve", *models, "--port", "0"]


def until_answered(url: str, model: str) -> None:
    """Wait until a server answers, which also warms it up."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    asked = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    end = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(asked, timeout=START_S):
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > end:
                raise RuntimeError(f"{url} does not answer: {error}") from error
            time.sleep(0.5)


def begin_clients(url: str, models: list[str], clients: int, args: Any, **more: Any) -> Any:
    """A process of clients, under way."""
    job = {
        "url": url,
        "key": "none",
        "models": models,
        "clients": clients,
        "seconds": args.seconds,
        "tokens": args.tokens,
        "more": {},
        "keep": False,
        **more,
    }
    process = subprocess.Popen(
        [sys.executable, str(HERE / "serving_clients.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(job))
    process.stdin.close()
    return process


def end_clients(process: Any) -> Json:
    said = process.stdout.read()
    process.stdout.close()
    if process.wait():
        raise RuntimeError("the clients failed")
    return dict(json.loads(said))


def measured(found: Json) -> Json:
    """Speed and failures of what the clients saw."""
    good = [row for row in found["rows"] if row["status"] == 200]
    failed = [row["error"] or str(row["status"]) for row in found["rows"] if row["status"] != 200]
    return {
        "requests": len(found["rows"]),
        "failed": len(failed),
        "errors": failed[:3],
        "tokens_per_s": sum(row["tokens"] for row in good) / found["seconds"],
        "requests_per_s": len(good) / found["seconds"],
        "ms": spread_ms([row["took_s"] for row in good]),
    }


def write_adapters(model: str, places: dict[Path, int]) -> dict[str, Path]:
    """A random adapter in each folder; folders by the fingerprints of their weights."""
    found = {}
    loaded = load_for_policy(model, "float32", "cpu")
    policy = attach_adapter(loaded.module, LoraConfig(), 0, model)
    for folder, seed in places.items():
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _, tensor in trainable(policy):
                tensor.copy_(0.03 * torch.randn(tensor.shape, generator=draw))
        folder.mkdir(parents=True)
        save_adapter(policy, folder)
        found[policy_fingerprint(policy, loaded.fingerprint)] = folder
    return found


def promote(folder: Path, version: int) -> None:
    (folder / ".current").symlink_to(Path("versions") / f"{version:04}")
    os.replace(folder / ".current", folder / "current")


def measure_swaps(args: Any, clients: int, folder: Path) -> Json:
    """Load on three models that are swapped all the while."""
    sites = [folder / "served" / name for name in ("one", "two", "three")]
    places = {
        site / "versions" / f"{version:04}": 10 * number + version
        for number, site in enumerate(sites)
        for version in (1, 2)
    }
    weights = write_adapters(args.model, places)
    for site in sites:
        promote(site, 1)
    said = folder / "said"
    with server(practicum_words([str(site) for site in sites]), said) as line:
        url, names = line.removesuffix("/v1"), [site.name for site in sites]
        more = {"logprobs": True, "return_token_ids": True}
        working = begin_clients(url, names, clients, args, more=more, keep=True)
        for number in range(args.swaps):
            time.sleep(args.seconds / (args.swaps + 1))
            promote(sites[number % 3], 2 - (number // 3) % 2)
        found = end_clients(working)
    swaps = [float(seconds) for seconds in SWAPPED.findall(said.read_text())]
    good = [row for row in found["rows"] if row["status"] == 200]
    gaps = asyncio.run(check_answers(args, good[: args.verify], weights))
    return {
        "clients": clients,
        **measured(found),
        "swaps": len(swaps),
        "swap_s": swaps,
        "fingerprints": len({row["answer"]["system_fingerprint"] for row in good}),
        "checked": len(gaps),
        "mixed": sum(gap > CLOSE for gap in gaps),
        "largest_gap": max(gaps, default=0.0),
    }


async def check_answers(args: Any, rows: list[Json], weights: dict[str, Path]) -> list[float]:
    """Each answer's largest difference in log-probability to its adapter alone."""
    gaps: list[float] = []
    for fingerprint, folder in weights.items():
        mine = [row for row in rows if row["answer"]["system_fingerprint"] == fingerprint]
        if mine:
            alone = load_adapted_sampler(load_for_policy(args.model, "float32", "cpu"), folder)
            gaps += await asyncio.gather(*(gap_of(alone, row, args.tokens) for row in mine))
    return gaps + [float("inf")] * (len(rows) - len(gaps))  # of weights that nobody published


async def gap_of(alone: Any, row: Json, tokens: int) -> float:
    answer, choice = row["answer"], row["answer"]["choices"][0]
    prompt = tuple(answer["prompt_token_ids"])
    params = SamplingParams(seed=row["seed"], max_tokens=tokens)
    again = await alone.sample(SamplingRequest(prompt_ids=prompt, params=params))
    told = [one["logprob"] for one in choice["logprobs"]["content"]]
    pairs = zip(choice["token_ids"], told, again.token_ids, again.logprobs, strict=False)
    gap = 0.0
    for token, logprob, other, expected in pairs:
        if token != other:  # a draw on the border between two tokens, or other weights
            return gap if gap else float("inf")
        gap = max(gap, abs(logprob - expected))
    return gap


def measure_speed(args: Any, clients: int, name: str, words: list[str], folder: Path) -> Json:
    """One server and its clients, alone on the machine."""
    with server(words, folder / f"said-{name}", ends_by_input=name.startswith("llama")) as line:
        url = line.removesuffix("/v1") or f"http://127.0.0.1:{args.port}"
        model = str(locate_model(args.model, silent)) if name == "transformers" else args.model
        until_answered(url, model)
        found = measured(end_clients(begin_clients(url, [model], clients, args)))
    return {"server": name, "clients": clients, **found}


def speed_servers(args: Any, folder: Path, clients: int) -> dict[str, list[str]]:
    """How each server that is installed is started."""
    found = {"practicum": practicum_words([args.model])}
    place = locate_model(args.model, silent)
    if place is None:
        return found
    command = Path(sys.executable).with_name("transformers")
    if "transformers" in args.peers and command.exists():
        address = ["--host", "127.0.0.1", "--port", str(args.port)]
        found["transformers"] = [str(command), "serve", str(place), "--device", "cpu", *address]
        if args.continuous_batching:
            found["transformers"].append("--continuous-batching")
    if "llama.cpp" in args.peers and find_spec("xllamacpp") is not None:
        exact, half = folder / "model-f32.gguf", folder / "model-f16.gguf"
        if not exact.exists():
            write_gguf(place, exact, silent)
            quantise(exact, half, "F16", args.threads)
        script = str(HERE / "serving_llama.py")
        for kind, file in (("f32", exact), ("f16", half)):
            options = [str(args.threads), str(clients), "1024"]
            found[f"llama.cpp {kind}"] = [sys.executable, script, str(file), *options]
    return found


def main() -> None:
    args = parse_arguments()
    pin_threads(args.threads)
    found: Json = {**describe(Case(model=args.model, device="cpu")), "swaps": [], "speed": []}
    for clients in args.clients:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            if args.part in ("all", "swaps"):
                found["swaps"].append(measure_swaps(args, clients, folder))
            if args.part in ("all", "speed"):
                for name, words in speed_servers(args, folder, clients).items():
                    found["speed"].append(measure_speed(args, clients, name, words, folder))
    if args.json:
        print(json.dumps(found))
    else:
        show(found)
    bad = [row for row in found["swaps"] if row["failed"] or row["mixed"]]
    slow = [s for row in found["swaps"] for s in row["swap_s"] if s >= 1.0]
    sys.exit(1 if bad or slow else 0)


def parse_arguments() -> Any:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--part", choices=("all", "swaps", "speed"), default="all")
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tokens", type=int, default=48, help="of an answer, at most")
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--verify", type=int, default=400, help="answers that are sampled again")
    parser.add_argument(
        "--peers", nargs="*", default=["transformers", "llama.cpp"], help="servers beside ours"
    )
    parser.add_argument("--continuous-batching", action="store_true", help="for transformers")
    parser.add_argument("--port", type=int, default=8899, help="where transformers serves")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def show(found: Json) -> None:
    print(found["command"])
    print(f"{found['hardware']}; {found['model']}")
    for row in found["swaps"]:
        slowest = max(row["swap_s"], default=0.0)
        print(
            f"{row['clients']} clients, {row['swaps']} swaps: {row['requests']} requests, "
            f"{row['failed']} failed, {row['mixed']} mixed of {row['checked']} checked (largest "
            f"gap {row['largest_gap']:.1e}), slowest swap {slowest:.2f} s, "
            f"{row['tokens_per_s']:.0f} tokens/s"
        )
    lines = [["server", "clients", "requests", "failed", "tokens/s", "p50 ms", "p95 ms"]]
    for row in found["speed"]:
        times = [f"{row['ms'].get(key, float('nan')):.0f}" for key in ("p50", "p95")]
        counts = [str(row[key]) for key in ("server", "clients", "requests", "failed")]
        lines.append([*counts, f"{row['tokens_per_s']:.1f}", *times])
    if found["speed"]:
        print_table(lines)


if __name__ == "__main__":
    main()
