"""Families about graphs, which are lists of edges such as [[1, 2], [2, 5]]."""

import random

from practicum_envs.code.families.drafting import Draft, Shelf, Twist, first_of_each

GRAPHS = Shelf("graphs")
Edges = list[list[int]]


def some_edges(rng: random.Random, size: int) -> tuple[Edges]:
    """Edges between a few nodes; many nodes where large inputs are wanted."""
    nodes = 7 if size < 50 else size
    return ([[rng.randint(1, nodes), rng.randint(1, nodes)] for _ in range(rng.randint(0, size))],)


def edge_twists(rng: random.Random, *others: int) -> tuple[Twist, ...]:
    """What may be asked of a list of edges first; of no node that is among the others."""
    node = rng.choice([one for one in range(1, 6) if one not in others])
    return (
        Twist(
            says=f"Edges at node {node} are left out first.",
            line=f"edges = [e for e in edges if {node} not in e]",
            change=lambda edges: [[a, b] for a, b in edges if a != node and b != node],
        ),
        Twist(
            says="Edges from a node to itself are left out first.",
            line="edges = [[a, b] for a, b in edges if a != b]",
            change=lambda edges: list(filter(lambda e: len(set(e)) == 2, edges)),
        ),
        Twist(
            says="Edges [a, b] in which a is greater than b are left out first.",
            line="edges = [[a, b] for a, b in edges if a <= b]",
            change=lambda edges: list(filter(lambda e: max(e) == e[1], edges)),
        ),
        Twist(
            says="Of equal edges only the first is kept.",
            line="edges = [e for i, e in enumerate(edges) if e not in edges[:i]]",
            change=first_of_each,
        ),
    )


def reached(edges: Edges, start: int, most: int = 99_999, *, back: bool = False) -> set[int]:
    """Nodes that can be reached in so many steps."""
    found = {start}
    for _ in range(most):
        more = {b for a, b in edges if a in found} | {a for a, b in edges if back and b in found}
        if more <= found:
            break
        found |= more
    return found


WALK = (
    "after = {{}}\nfor a, b in edges:\n    after.setdefault(a, []).append(b)\n{both}"
    "seen = {{{start}}}\ntodo = [{start}]\nwhile todo:\n    for b in after.get(todo.pop(), []):\n"
    "        if b not in seen:\n            seen.add(b)\n            todo.append(b)\n"
)


@GRAPHS.family(fast=True)
def reachable(rng: random.Random, level: int) -> Draft:
    """Nodes that can be reached."""
    start = rng.randint(1, 6)
    return Draft(
        says="An edge [a, b] leads from a to b. Return the sorted list of the nodes that can be "
        f"reached from node {start}, itself included.",
        args=("edges",),
        body=WALK.format(start=start, both="") + "return sorted(seen)",
        slow=f"found = [{start}]\nfor _ in range(len(edges) + 1):\n    for a, b in edges:\n"
        "        if a in found and b not in found:\n            found.append(b)\n"
        "return sorted(found)",
        answer=lambda edges: sorted(reached(edges, start)),
        sample=some_edges,
        twists=edge_twists(rng, start),
    )


@GRAPHS.family()
def node_degree(rng: random.Random, level: int) -> Draft:
    """Edges at each node."""
    end = rng.choice(["begin", "end"])
    at = 0 if end == "begin" else 1
    return Draft(
        says=f"An edge [a, b] leads from a to b. Return a dict of how many edges {end} at each "
        f"node; only nodes where at least one does.",
        args=("edges",),
        body=f"counts = {{}}\nfor e in edges:\n    counts[e[{at}]] = counts.get(e[{at}], 0) + 1\n"
        "return counts",
        answer=lambda edges: {n: sum(e[at] == n for e in edges) for n in {e[at] for e in edges}},
        sample=some_edges,
        twists=edge_twists(rng),
    )


@GRAPHS.family()
def neighbours(rng: random.Random, level: int) -> Draft:
    """Nodes beside a node."""
    start = rng.randint(1, 6)
    return Draft(
        says="An edge [a, b] connects a and b both ways. Return the sorted list of the nodes that "
        f"an edge connects with node {start}, each once.",
        args=("edges",),
        body=f"return sorted({{b if a == {start} else a for a, b in edges if {start} in (a, b)}})",
        answer=lambda edges: sorted(
            {b for a, b in edges if a == start} | {a for a, b in edges if b == start}
        ),
        sample=some_edges,
        twists=edge_twists(rng, start),
    )


@GRAPHS.family(heldout=True)
def steps_between(rng: random.Random, level: int) -> Draft:
    """The fewest steps from one node to another."""
    start, end = rng.sample(range(1, 6), 2)

    def answer(edges: Edges) -> int | None:
        counts = (k for k in range(len(edges) + 1) if end in reached(edges, start, k))
        return next(counts, None)

    return Draft(
        says="An edge [a, b] leads from a to b. Return the fewest edges that lead from node "
        f"{start} to node {end}; None where there is no way.",
        args=("edges",),
        body=f"steps = {{{start}: 0}}\ntodo = [{start}]\nfor a in todo:\n    for c, b in edges:\n"
        "        if c == a and b not in steps:\n            steps[b] = steps[a] + 1\n"
        f"            todo.append(b)\nreturn steps.get({end})",
        answer=answer,
        sample=lambda rng, size: (
            [[rng.randint(1, 5), rng.randint(1, 5)] for _ in range(rng.randint(2, 9))],
        ),
        twists=edge_twists(rng, start, end),
    )


@GRAPHS.family(fast=True)
def is_connected(rng: random.Random, level: int) -> Draft:
    """How many nodes hang together with a node."""
    start = rng.randint(1, 6)
    both = "    after.setdefault(b, []).append(a)\n"
    return Draft(
        says="An edge [a, b] connects a and b both ways. Return how many nodes are connected with "
        f"node {start}, over any number of edges, itself included.",
        args=("edges",),
        body=WALK.format(start=start, both=both) + "return len(seen)",
        slow=f"found = [{start}]\nfor _ in range(len(edges) + 1):\n    for a, b in edges:\n"
        "        if a in found and b not in found:\n            found.append(b)\n"
        "        if b in found and a not in found:\n            found.append(a)\n"
        "return len(found)",
        answer=lambda edges: len(reached(edges, start, back=True)),
        sample=some_edges,
        twists=edge_twists(rng, start),
    )
