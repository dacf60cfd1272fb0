"""Secrets are taken out, and what only looks like one stays. None of these was ever a real key."""

import pytest

from practicum.traces.redaction import is_secret_name, redact_text

# Written in pieces, so that scanners of repositories do not take them for real ones.
ALNUM = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1h"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow" + ALNUM + "\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    ("api-key", "sk-" + ALNUM),
    ("api-key", "sk-proj-" + ALNUM),
    ("api-key", "sk-or-v1-" + "0a1b2c3d" * 8),
    ("api-key", "gsk_" + ALNUM),
    ("api-key", "xai-" + ALNUM),
    ("anthropic-key", "sk-ant-api03-" + ALNUM),
    ("github-token", "ghp_" + ALNUM[:36]),
    ("github-token", "gho_" + ALNUM[:36]),
    ("github-token", "github_pat_" + ALNUM[:30]),
    ("gitlab-token", "glpat-" + ALNUM[:20]),
    ("slack-token", "xoxb-" + "123456789012-" + ALNUM[:24]),
    ("aws-key", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("aws-key", "ASIA" + "IOSFODNN7EXAMPLE"),
    ("google-key", "AIza" + ALNUM[:35]),
    ("google-token", "ya29." + ALNUM),
    ("huggingface-token", "hf_" + ALNUM[:34]),
    ("stripe-key", "sk_live_" + ALNUM[:24]),
    ("stripe-key", "rk_test_" + ALNUM[:24]),
    ("sendgrid-key", "SG." + ALNUM[:22] + "." + ALNUM[:43]),
    ("twilio-key", "SK" + "0a1b2c3d" * 4),
    ("npm-token", "npm_" + ALNUM[:36]),
    ("package-index-token", "pypi-AgE" + ALNUM[:40]),
    ("jwt", JWT),
    ("private-key", PEM),
    ("private-key", PEM.replace("RSA ", "OPENSSH ")),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "use {} please", 'curl -H "X-Key: {}"', "({}),", "a\n{}\nb"]
)
def test_a_secret_is_replaced_by_its_kind_and_nothing_around_it(
    kind: str, secret: str, around: str
) -> None:
    clean, found = redact_text(around.format(secret))
    assert clean == around.format(f"[redacted:{kind}]")
    assert found == [kind]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (
            "Authorization: Bearer abc123def456ghi789",
            "Authorization: Bearer [redacted:bearer-token]",
        ),
        (
            "authorization: bearer a.b-c_d~e+f/g0123==",
            "authorization: bearer [redacted:bearer-token]",
        ),
        (
            '"Authorization": "Basic dXNlcjpwYXNz"',
            '"Authorization": "Basic [redacted:basic-login]"',
        ),
        ("postgres://ada:l0vel4ce@db:5432/x", "postgres://ada:[redacted:password]@db:5432/x"),
        ("https://:s3cret@host", "https://:[redacted:password]@host"),
        ("password = 'correct horse'", "password = '[redacted:password]'"),
        ('{"api_key": "abcdef-no-digits"}', '{"api_key": "[redacted:password]"}'),
        ('client_secret: "q8w7e6"', 'client_secret: "[redacted:password]"'),
        ("export DB_PASSWORD=hunter2hunter", "export DB_PASSWORD=[redacted:password]"),
        ("PGPASSWORD=swordfish psql -h db", "PGPASSWORD=[redacted:password] psql -h db"),
        ("the password: Winter2024!", "the password: [redacted:password]"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key = [redacted:password]",
        ),
        ("AccountKey=abc123+/def456==;Endpoint=x", "AccountKey=[redacted:password];Endpoint=x"),
        (
            "https://hooks.slack.com/services/T000/B000/" + "X0" * 12,
            "https://hooks.slack.com/services/[redacted:slack-webhook]",
        ),
    ],
)
def test_what_is_around_a_secret_stays(text: str, clean: str) -> None:
    assert redact_text(text)[0] == clean


@pytest.mark.parametrize(
    "text",
    [
        "password: str",
        "password: str = None",
        "password = os.environ['DB_PASSWORD']",
        "password=getpass.getpass()",
        "password = input2()",
        "def login(user, password=None): ...",
        "export TOKEN=$GITHUB_TOKEN",
        "PASSWORD=${PASSWORD}",
        "api_key=<your-key-1>",
        "api_key: '{{ key1 }}'",
        "api_key = '***********'",
        "postgres://user:$DB_PASS@host/db",
        "postgres://user:<password>@host/db",
        "http://localhost:8080/users/a@b",
        "git@github.com:ada/engine.git",
        "max_tokens: 100000",
        "tokens=123456789",
        "PWD=/home/user1",
        "the bearer of this letter is authorised",
        "Bearer authentication-is-required-here",
        "a basic misunderstanding123",
        "sk-learn is not sk-image",
        "task-management-system-configuration-2024",
        "sk-network-configuration-file-2",
        "AKIA is a prefix of 16 more",
        "AKIAlowercase1234567",
        "hf_hub_download",
        "eyJ is how they begin",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 5e75e62aa25a5e3f636bb0ace080d10df54a1b2c",
        "the secret of success is to try 100 times",
        "secret_number = 12345678",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "chage -M 90 user1; passwd -l user1",
        "xoxo-hugs-and-kisses",
        "key: value1234",
        "keyboard_key = 'Enter12'",
        "ghp_short",
        "npm_config_registry",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact_text(text) == (text, [])


def test_a_key_block_that_never_ends_takes_the_rest_of_the_text_with_it() -> None:
    clean, found = redact_text("cat id_rsa: " + PEM.partition("-----END")[0] + "more")
    assert (clean, found) == ("cat id_rsa: [redacted:private-key]", ["private-key"])


def test_redacting_twice_changes_nothing() -> None:
    for _, secret in SECRETS:
        once, _ = redact_text(f"token {secret} and password='abcdefgh'")
        assert redact_text(once) == (once, [])


def test_several_secrets_of_one_text_are_all_found() -> None:
    text = f"{SECRETS[0][1]} {SECRETS[6][1]} postgres://a:b1@c"
    clean, found = redact_text(text)
    assert clean == "[redacted:api-key] [redacted:github-token] postgres://a:[redacted:password]@c"
    assert sorted(found) == ["api-key", "github-token", "password"]


def test_clean_text_costs_little() -> None:
    import time

    text = "The agent lists the files of the folder and then reads the last one. " * 1500
    start = time.thread_time()
    assert redact_text(text) == (text, [])
    assert time.thread_time() - start < 1, "a hundred thousand characters"


def test_hostile_text_does_not_stall() -> None:
    import time

    start = time.thread_time()
    for text in ("sk-" + "a" * 50_000, "password" * 9000 + "=", "eyJ" * 30_000, "://a:" * 20_000):
        redact_text(text)
    assert time.thread_time() - start < 10


@pytest.mark.parametrize("name", ["password", "dbPassword", "API_KEY", "x-api-key", "clientSecret"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["keyboard", "max_tokens", "passwords_checked", "path", "secretary"]
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)
