import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from practicum.engine.planning.machine import detect_machine

KIB = 1024
MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    9000 kB\n"


def processor(number: int, core: int, flags: str = "fpu avx2", package: int = 0) -> str:
    return (
        f"processor\t: {number}\nmodel name\t: AMD Ryzen 9 5950X 16-Core Processor\n"
        f"physical id\t: {package}\ncore id\t\t: {core}\nflags\t\t: {flags}\n\n"
    )


def look(root: Path, **options: object):
    return detect_machine(root=root, look_for_devices=False, **options)  # type: ignore[arg-type]


def test_cores_threads_and_flags_come_from_cpuinfo(make_root) -> None:
    text = "".join(processor(i, core=i % 2) for i in range(4))
    machine = look(make_root({"proc/cpuinfo": text, "proc/meminfo": MEMINFO}), affinity=4)

    assert machine.cpu == "AMD Ryzen 9 5950X 16-Core Processor"
    assert (machine.physical_cores, machine.logical_cores, machine.allowed_cores) == (2, 4, 4)
    assert (machine.has_avx2, machine.has_avx512) == (True, False)


def test_equal_core_numbers_in_two_sockets_are_two_cores(make_root) -> None:
    text = processor(0, core=0, package=0) + processor(1, core=0, package=1)

    assert look(make_root({"proc/cpuinfo": text, "proc/meminfo": MEMINFO})).physical_cores == 2


def test_avx512_is_found_by_its_foundation_flag(make_root) -> None:
    text = processor(0, core=0, flags="avx2 avx512f avx512vl")

    assert look(make_root({"proc/cpuinfo": text, "proc/meminfo": MEMINFO})).has_avx512


def test_an_arm_processor_without_core_ids_counts_its_processors(make_root) -> None:
    block = "processor\t: {}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\n"
    text = "".join(block.format(i) for i in range(3)) + "Hardware\t: Board\n"
    machine = look(make_root({"proc/cpuinfo": text, "proc/meminfo": MEMINFO}), affinity=3)

    assert (machine.physical_cores, machine.logical_cores) == (3, 3)
    assert machine.has_avx2 is False
    assert machine.cpu


def test_available_memory_is_what_the_kernel_says_can_be_had(make_root) -> None:
    machine = look(make_root({"proc/cpuinfo": processor(0, 0), "proc/meminfo": MEMINFO}))

    assert (machine.memory_bytes, machine.available_bytes) == (16000 * KIB, 9000 * KIB)
    assert not machine.is_memory_limited


def test_a_control_group_lowers_memory_and_cores(make_root) -> None:
    files = {
        "proc/cpuinfo": "".join(processor(i, core=i) for i in range(8)),
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": str(4000 * KIB),
        "sys/fs/cgroup/memory.current": str(1000 * KIB),
        "sys/fs/cgroup/cpu.max": "250000 100000",
    }
    machine = look(make_root(files), affinity=8)

    assert machine.allowed_cores == 2
    assert (machine.memory_bytes, machine.available_bytes) == (4000 * KIB, 3000 * KIB)
    assert machine.is_memory_limited


def test_a_group_limit_above_the_machine_is_no_limit(make_root) -> None:
    files = {
        "proc/cpuinfo": processor(0, 0),
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": str(99000 * KIB),
        "sys/fs/cgroup/memory.current": "0",
    }
    machine = look(make_root(files))

    assert machine.memory_bytes == 16000 * KIB
    assert not machine.is_memory_limited


def test_less_than_one_core_of_time_still_allows_one(make_root) -> None:
    files = {
        "proc/cpuinfo": processor(0, 0) + processor(1, 1),
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/cpu.max": "50000 100000",
    }

    assert look(make_root(files), affinity=2).allowed_cores == 1


def test_affinity_limits_the_cores(make_root) -> None:
    text = "".join(processor(i, core=i) for i in range(8))

    root = make_root({"proc/cpuinfo": text, "proc/meminfo": MEMINFO})

    assert look(root, affinity=3).allowed_cores == 3


def test_a_system_without_proc_is_still_described(tmp_path: Path) -> None:
    machine = look(tmp_path)

    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine.memory_bytes == machine.available_bytes == pages
    assert machine.logical_cores >= machine.allowed_cores >= 1


def test_free_disk_is_that_of_the_nearest_existing_folder(make_root, tmp_path: Path) -> None:
    root = make_root({"proc/cpuinfo": processor(0, 0), "proc/meminfo": MEMINFO})

    assert look(root, folder=tmp_path / "not" / "yet" / "made").disk_free_bytes > 0


def test_this_machine_can_be_looked_at_and_written_as_json() -> None:
    machine = detect_machine(look_for_devices=False)

    assert 0 < machine.available_bytes <= machine.memory_bytes
    assert json.loads(json.dumps(asdict(machine)))["packages"]["practicum"]


def test_looking_without_devices_loads_no_heavy_package() -> None:
    program = (
        "import sys\nfrom practicum.engine.planning.machine import detect_machine\n"
        "detect_machine(look_for_devices=False)\n"
        "print([m for m in ('torch', 'transformers', 'peft') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", ["train", "dev"])
def test_the_declared_extras_are_listed(name: str) -> None:
    extras = {extra.name: extra for extra in detect_machine(look_for_devices=False).extras}

    assert extras[name].packages
