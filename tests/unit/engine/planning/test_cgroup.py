from practicum.engine.planning.machine import CgroupLimits, read_cgroup_limits

UNLIMITED_V1 = "9223372036854771712"


def test_version_2_limits_are_read_and_droppable_pages_are_not_use(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "8000\n",
            "sys/fs/cgroup/memory.current": "5000\n",
            "sys/fs/cgroup/memory.stat": "anon 100\ninactive_file 2000\n",
            "sys/fs/cgroup/cpu.max": "150000 100000\n",
        }
    )

    assert read_cgroup_limits(root) == CgroupLimits(
        memory_bytes=8000, memory_free_bytes=5000, cpus=1.5
    )


def test_the_tightest_group_on_the_way_up_counts(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "0::/user/job\n",
            "sys/fs/cgroup/user/memory.max": "3000\n",
            "sys/fs/cgroup/user/memory.current": "1000\n",
            "sys/fs/cgroup/user/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user/job/memory.max": "max\n",
            "sys/fs/cgroup/user/job/cpu.max": "400000 100000\n",
        }
    )

    assert read_cgroup_limits(root) == CgroupLimits(
        memory_bytes=3000, memory_free_bytes=2000, cpus=4.0
    )


def test_version_1_limits_are_read(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "4:memory:/box\n2:cpu,cpuacct:/box\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9000\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "4000\n",
            "sys/fs/cgroup/memory/box/memory.stat": "inactive_file 9\ntotal_inactive_file 500\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED_V1,
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
        }
    )

    assert read_cgroup_limits(root) == CgroupLimits(
        memory_bytes=9000, memory_free_bytes=5500, cpus=2.0
    )


def test_a_host_path_that_is_not_there_in_a_container_leads_to_the_mount(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "0::/docker/abc123\n",
            "sys/fs/cgroup/memory.max": "7000\n",
            "sys/fs/cgroup/memory.current": "1000\n",
        }
    )

    assert read_cgroup_limits(root).memory_bytes == 7000


def test_both_versions_mounted_at_once_are_both_read(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "4:memory:/\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "6000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
            "sys/fs/cgroup/unified/cpu.max": "50000 100000\n",
        }
    )

    assert read_cgroup_limits(root) == CgroupLimits(
        memory_bytes=6000, memory_free_bytes=5000, cpus=0.5
    )


def test_use_beyond_the_limit_leaves_nothing(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "1000\n",
            "sys/fs/cgroup/memory.current": "1500\n",
        }
    )

    assert read_cgroup_limits(root).memory_free_bytes == 0


def test_no_control_groups_mean_no_limits(make_root) -> None:
    root = make_root({"proc/self/cgroup": "4:memory:/\n2:cpu:/\n0::/\n"})

    assert read_cgroup_limits(root) == CgroupLimits(
        memory_bytes=None, memory_free_bytes=None, cpus=None
    )


def test_minus_one_is_no_quota(make_root) -> None:
    root = make_root(
        {
            "proc/self/cgroup": "2:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }
    )

    assert read_cgroup_limits(root).cpus is None
