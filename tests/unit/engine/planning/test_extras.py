from practicum.engine.planning.machine import find_extras, installed_version

LINES = [
    "numpy>=1.26",
    "torch==2.13.0; extra == 'train'",
    'numpy[all]>=1.26; python_version < "4" and extra == "train"',
    "no-such-package-here>=1 ; extra == 'vllm'",
]


def test_packages_are_grouped_by_extra_with_their_versions() -> None:
    train, vllm = find_extras(LINES)

    assert (train.name, list(train.packages)) == ("train", ["torch", "numpy"])
    assert train.packages["numpy"] == installed_version("numpy")
    assert vllm.packages == {"no-such-package-here": None}


def test_an_extra_is_installed_when_all_its_packages_are() -> None:
    (present,) = find_extras(["numpy; extra == 'a'"])
    (absent,) = find_extras(["numpy; extra == 'a'", "no-such-package-here; extra == 'a'"])

    assert present.is_installed
    assert not absent.is_installed


def test_a_missing_extra_says_what_to_type() -> None:
    (extra,) = find_extras(["no-such-package-here; extra == 'train'"])

    assert extra.install_command == "pip install 'practicum[train]'"


def test_requirements_without_an_extra_are_no_extra() -> None:
    assert find_extras(["numpy>=1.26", "rich"]) == ()
