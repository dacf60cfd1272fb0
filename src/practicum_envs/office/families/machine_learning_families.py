"""Tasks of a machine learning team: metrics, runs, configs, data."""

import json

from practicum_envs.office.company_seed import CompanySeed, Project
from practicum_envs.office.evidence import (
    Evidence,
    is_rounded,
    json_of,
    project_route,
    rows_of,
)
from practicum_envs.office.families import allow, bash
from practicum_envs.office.families import machine_learning_wordings as words
from practicum_envs.office.families.family_parts import edited, must, table
from practicum_envs.office.office_plan import OfficePlan, Setting, family

SETTINGS: dict[str, tuple[object, ...]] = {
    "model": ("small", "base", "large"),
    "learning_rate": (0.001, 0.0005, 0.002),
    "batch_size": (16, 32, 64),
    "epochs": (3, 4, 5, 6, 8),
    "dropout": (0.0, 0.1, 0.2),
}
CLONE = "git clone -q http://root:theagentcompany@the-agent-company.com:8929/{}.git repo\ncd repo"

SCORE_PREDICTIONS_SOLUTION = """
import csv, json
rows = [(r["label"], r["predicted"]) for r in csv.DictReader(open("predictions.csv"))]
hit = rows.count(("{positive}", "{positive}"))
found = {{
    "accuracy": sum(t == p for t, p in rows) / len(rows),
    "precision": hit / sum(p == "{positive}" for t, p in rows),
    "recall": hit / sum(t == "{positive}" for t, p in rows),
}}
json.dump({{name: round(value, 4) for name, value in found.items()}}, open("m.json", "w"))
"""


@family(level=2, domain="machine learning", services=("owncloud",), split="train")
def score_predictions(setting: Setting) -> OfficePlan:
    """Accuracy, precision and recall of predictions."""
    rng = setting.rng
    positive, negative = rng.choice((("spam", "ham"), ("churn", "stay"), ("fraud", "fine")))
    truth = [rng.choice((positive, negative)) for _ in range(rng.randrange(20, 40))]
    truth[:4] = [positive, positive, negative, negative]
    guess = [t if rng.random() < 0.7 else (positive if t == negative else negative) for t in truth]
    guess[:4] = [positive, negative, negative, positive]
    rows = [(f"x{n}", t, g) for n, (t, g) in enumerate(zip(truth, guess, strict=True))]
    hit = sum(t == g == positive for _, t, g in rows)
    exact = {
        "accuracy": sum(t == g for _, t, g in rows) / len(rows),
        "precision": hit / guess.count(positive),
        "recall": hit / truth.count(positive),
    }
    target = f"Models/{positive}-{rng.randrange(100, 1000)}.json"
    company = setting.base + CompanySeed(
        files={"Models/predictions.csv": table([("id", "label", "predicted"), *rows])}
    )
    solve = SCORE_PREDICTIONS_SOLUTION.format(positive=positive)
    reference = (
        bash.fetch("Models/predictions.csv") + "\nhead -3 predictions.csv",
        bash.make(solve, "m.json", target),
    )

    def has(seen: Evidence, *names: str) -> bool:
        found = seen.json(target)
        return (
            isinstance(found, dict)
            and found.keys() == exact.keys()
            and all(
                not isinstance(found[n], str) and is_rounded(found[n], exact[n], 4) for n in names
            )
        )

    return OfficePlan(
        instruction=setting.told(words.SCORE_PREDICTIONS, positive=positive, target=target),
        company=company,
        checkpoints=(
            must("the accuracy is right", lambda seen: has(seen, "accuracy")),
            must(
                "precision and recall are right", lambda seen: has(seen, "precision", "recall"), 2
            ),
        ),
        allows=allow.file(target),
        reference=reference,
        near_misses=(
            edited(
                reference,
                ('"precision": hit / sum(p ==', '"precision": hit / (1 + sum(p =='),
                ('for t, p in rows),\n    "recall"', 'for t, p in rows)),\n    "recall"'),
            ),
            edited(reference, ("round(value, 4)", "round(value, 1) + 0.001")),
        ),
    )


@family(level=2, domain="machine learning", services=("gitlab",), split="train")
def pick_the_best_run(setting: Setting) -> OfficePlan:
    """Find the run with the lowest validation loss and commit its name."""
    rng = setting.rng
    stems = rng.sample(("amber", "birch", "coral", "dawn", "ember", "flint", "gale", "haze"), 6)
    runs = [f"{word}-{rng.randrange(10, 100)}" for word in stems]
    losses = rng.sample(range(200, 900), 6)
    best, crashed = losses.index(sorted(losses)[1]), losses.index(min(losses))
    files = {"README.md": "# Experiments\n"}
    for n, (run, loss) in enumerate(zip(runs, losses, strict=True)):
        facts = {
            "status": "crashed" if n == crashed else "finished",
            "train_loss": round(loss / 1000 - rng.uniform(0.05, 0.15), 3),
            "val_loss": loss / 1000,
        }
        files[f"runs/{run}/metrics.json"] = json.dumps(facts)
    path = f"root/{rng.choice(('ranker', 'tagger', 'forecast', 'vision'))}-{rng.randrange(1, 90)}"
    company = setting.base + CompanySeed(projects=(Project(path=path, files=files),))
    route = project_route(path)
    find = CLONE.format(path) + "\ngrep -H . runs/*/metrics.json"

    def commit(name: str, file: str = "BEST", branch: str = "main") -> tuple[str, ...]:
        fields = f"branch={branch} commit_message='Best run' content={name}"
        more = "" if branch == "main" else " start_branch=main"
        return (find, f"office gitlab POST {route}/repository/files/{file} {fields}{more}")

    def best_of(seen: Evidence) -> str:
        return seen.repository(path).get("BEST", "").strip()

    return OfficePlan(
        instruction=setting.told(words.PICK_THE_BEST_RUN, path=path),
        company=company,
        checkpoints=(
            must("main has a file BEST with the name of a run", lambda seen: best_of(seen) in runs),
            must("it is the best run", lambda seen: best_of(seen) == runs[best], 2),
        ),
        allows=(allow.project(path, "branches", "main", "BEST"),),
        reference=commit(runs[best]),
        near_misses=(
            commit(runs[crashed]),
            commit(runs[best], branch="best"),
            commit(runs[best], file="best.txt"),
        ),
    )


@family(level=2, domain="machine learning", services=("gitlab",), split="train")
def propose_a_config(setting: Setting) -> OfficePlan:
    """Change a value of a config on a branch and open a merge request."""
    rng = setting.rng
    config = {name: rng.choice(values) for name, values in SETTINGS.items()}
    new = {
        "learning_rate": rng.randrange(1, 90) / 100_000,
        "batch_size": rng.randrange(65, 300),
        "epochs": rng.randrange(13, 90),
        "dropout": rng.randrange(21, 60) / 100,
    }
    key, value = rng.choice(list(new.items()))
    path = f"root/{rng.choice(('ranker', 'tagger', 'forecast', 'vision'))}-{rng.randrange(1, 90)}"
    files = {"config.json": json.dumps(config, indent=1) + "\n", "README.md": "# Model\n"}
    company = setting.base + CompanySeed(projects=(Project(path=path, files=files),))
    branch = f"{key.replace('_', '-')}-{rng.randrange(10, 1000)}"
    title = f"Set {key} to {value}"
    change = bash.python(
        f'import json\nc = json.load(open("config.json"))\nc["{key}"] = {value}\n'
        'json.dump(c, open("config.json", "w"), indent=1)'
    )
    push = (
        f"{CLONE.format(path)}\ngit checkout -q -b {branch}\n{change}\n"
        f"{bash.GIT} commit -qam {bash.q(title)}\ngit push -q origin {branch}"
    )
    route = f"{project_route(path)}/merge_requests"
    fields = f"source_branch={branch} target_branch=main title={bash.q(title)}"
    merge = f"office gitlab POST {route} {fields}"

    def is_changed(seen: Evidence) -> bool:
        found = seen.repository(path, branch)
        is_set = json_of(found.pop("config.json", "").encode()) == {**config, key: value}
        return is_set and found == {"README.md": files["README.md"]}

    def requests(seen: Evidence) -> list[list[str]]:
        names = ("title", "source_branch", "target_branch", "state")
        return [[one[name] for name in names] for one in seen.listed(route)]

    return OfficePlan(
        instruction=setting.told(
            words.PROPOSE_A_CONFIG, path=path, key=key, value=value, branch=branch, title=title
        ),
        company=company,
        checkpoints=(
            must("the branch has the change and no other", is_changed, 2),
            must(
                "the merge request is open",
                lambda seen: requests(seen) == [[title, branch, "main", "opened"]],
            ),
        ),
        allows=(
            allow.project(path, "branches", branch),
            allow.new(allow.project(path, "merge_requests", "*")),
        ),
        reference=(push, merge),
        near_misses=(
            (push,),
            (push, merge, f"office gitlab PUT {route}/1/merge"),
            edited((push, merge), (f'c["{key}"] = {value}', f'c["{key}"] = {value} + 1')),
        ),
    )


SPLIT_A_DATASET_SOLUTION = """
import csv
head, *rows = csv.reader(open("all.csv"))
rows = [r for r in rows if r[2]]
test = [r for r in rows if int(r[0]) % {every} == {rest}]
train = [r for r in rows if int(r[0]) % {every} != {rest}]
csv.writer(open("test.csv", "w")).writerows([head, *test])
csv.writer(open("train.csv", "w")).writerows([head, *train])
"""


@family(level=2, domain="machine learning", services=("owncloud",), split="heldout")
def split_a_dataset(setting: Setting) -> OfficePlan:
    """Split examples into two files by a rule."""
    rng = setting.rng
    every, rest = rng.choice((3, 4, 5)), rng.randrange(0, 3)
    head = ("id", "text", "label")
    rows = [
        (n, f"sample {rng.randrange(1000, 9999)}", rng.choice(("yes", "no", "yes", "")))
        for n in rng.sample(range(100, 1000), 25)
    ]
    rows += [(1000 + n, f"sample {n}", rng.choice(("yes", "no"))) for n in range(every * 2)]
    folder = f"Datasets/{rng.choice(('mail', 'calls', 'chats'))}-{rng.randrange(10, 1000)}"
    company = setting.base + CompanySeed(files={f"{folder}/all.csv": table([head, *rows])})
    kept = [row for row in rows if row[2]]
    parts = {
        "test": [row for row in kept if row[0] % every == rest],
        "train": [row for row in kept if row[0] % every != rest],
    }
    wanted = {k: rows_of(table([head, *found]).encode()) for k, found in parts.items()}
    solve = SPLIT_A_DATASET_SOLUTION.format(every=every, rest=rest)
    puts = "\n".join(bash.put(f"{name}.csv", f"{folder}/{name}.csv") for name in ("test", "train"))
    reference = (
        bash.fetch(f"{folder}/all.csv") + "\nhead -4 all.csv",
        bash.python(solve) + "\n" + puts,
    )

    def has(seen: Evidence, name: str) -> bool:
        return rows_of(seen.office.read_file(f"{folder}/{name}.csv")) == wanted[name]

    return OfficePlan(
        instruction=setting.told(words.SPLIT_A_DATASET, folder=folder, every=every, rest=rest),
        company=company,
        checkpoints=(
            must("the test set is right", lambda seen: has(seen, "test")),
            must("the training set is right", lambda seen: has(seen, "train")),
        ),
        allows=allow.file(f"{folder}/test.csv", f"{folder}/train.csv"),
        reference=reference,
        near_misses=(
            edited(reference, ("if r[2]]", "if True]")),
            edited(reference, (f"== {rest}]", f"== {rest + 1}]")),
            (*reference, bash.put("test.csv", f"{folder}/copy.csv")),
        ),
    )


REPORT_DRIFT_SOLUTION = """
import csv
def means(name):
    head, *rows = csv.reader(open(name))
    return {h: sum(float(r[i]) for r in rows) / len(rows) for i, h in enumerate(head)}
old, new = means("last-month.csv"), means("this-month.csv")
print({h: round(new[h] - old[h]) for h in old})
"""


@family(level=3, domain="machine learning", services=("owncloud", "rocketchat"), split="train")
def report_drift(setting: Setting) -> OfficePlan:
    """Tell the analyst which feature's mean moved most."""
    rng = setting.rng
    names = rng.sample(("age", "price", "clicks", "length", "delay", "stock", "rank"), 7)
    count = 60
    before = [[rng.randrange(100, 900) for _ in names] for _ in range(count)]
    moved = rng.sample(range(20, 60), 7)
    signs = [rng.choice((-1, 1)) for _ in names]
    most = moved.index(max(moved))
    after = [
        [value + sign * step for value, sign, step in zip(row, signs, moved, strict=True)]
        for row in rng.sample(before, count)
    ]
    shift = signs[most] * moved[most]
    person, other = setting.people(2)
    company = setting.base + CompanySeed(
        files={
            "Features/last-month.csv": table([names, *before]),
            "Features/this-month.csv": table([names, *after]),
        }
    )
    text = f"Largest drift: {names[most]} {shift:+d}"
    find = (
        bash.fetch("Features/last-month.csv", "Features/this-month.csv")
        + "\n"
        + bash.python(REPORT_DRIFT_SOLUTION)
    )
    least = moved.index(min(moved))
    wrong = f"Largest drift: {names[least]} {signs[least] * moved[least]:+d}"
    return OfficePlan(
        instruction=setting.told(words.REPORT_DRIFT, person=person),
        company=company,
        checkpoints=(
            must(
                "the right column was named",
                lambda seen: (
                    [one.rpartition(" ")[0] for one in seen.spoken().get(f"@{person.username}", [])]
                    == [text.rpartition(" ")[0]]
                ),
            ),
            must(
                "how far it moved is right",
                lambda seen: seen.has_said(f"@{person.username}", text),
            ),
        ),
        allows=(allow.post(f"@{person.username}"),),
        reference=(find, bash.post(f"@{person.username}", text)),
        near_misses=(
            (find, bash.post(f"@{person.username}", wrong)),
            (find, bash.post(f"@{person.username}", text.replace(f"{shift:+d}", f"{-shift:+d}"))),
            (find, bash.post(f"@{other.username}", text)),
        ),
    )
