"""The first process as one text for whatever Python a sandbox has."""

import ast
import marshal
import subprocess
import sys
from importlib.util import MAGIC_NUMBER

import pytest

from practicum.sandboxes.inside.program import PARTS, compiled_program, program_text


def test_the_joined_text_compiles_and_has_a_beginning() -> None:
    tree = ast.parse(program_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"main", "FirstProcess", "System", "Running", "Kept", "Held", "pack"} <= defined


def test_the_joined_text_needs_only_the_standard_library() -> None:
    imported = set()
    for node in ast.walk(ast.parse(program_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported - {"collections"} <= set(sys.stdlib_module_names)
    assert "practicum" not in imported


def test_every_name_is_defined_before_it_is_needed() -> None:
    program = program_text().replace('if __name__ == "__main__":', "if False:")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_part_hides_a_name_of_another() -> None:
    seen: dict[str, int] = {}
    for node in ast.parse(program_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            seen[node.name] = seen.get(node.name, 0) + 1
    assert [name for name, count in seen.items() if count > 1] == []
    assert PARTS[-1] == "first"


def test_the_compiled_program_is_what_that_python_reads() -> None:
    program = compiled_program([sys.executable])
    assert program[:4] == MAGIC_NUMBER
    code = marshal.loads(program[16:])
    assert "main" in code.co_names


def test_a_python_that_does_not_run_is_told() -> None:
    with pytest.raises(OSError, match="does not run"):
        compiled_program(["false"])
