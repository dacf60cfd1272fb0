"""200 secrets that were never real, made from a seed, and 200 texts that only look like some."""

import base64
import hashlib
import json
import random
import re
import string
import uuid
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"

Dice = random.Random


def of(dice: Dice, letters: str, count: int) -> str:
    return "".join(dice.choices(letters, k=count))


def jwt(dice: Dice) -> str:
    def part(value: dict[str, str]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    body = part({"sub": of(dice, ALNUM, 12), "name": of(dice, ALNUM, 9)})
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{body}.{of(dice, URLSAFE, 43)}"


def private_key(dice: Dice) -> str:
    kind = dice.choice(["RSA ", "EC ", "OPENSSH ", ""])
    lines = "\n".join(of(dice, ALNUM + "+/", 64) for _ in range(12))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


TOKENS: dict[str, Callable[[Dice], str]] = {
    "AWS access key": lambda d: "AKIA" + of(d, BASE32, 16),
    "AWS session key": lambda d: "ASIA" + of(d, BASE32, 16),
    "Google API": lambda d: "AIza" + of(d, URLSAFE, 34) + "A",
    "Google OAuth": lambda d: "ya29." + of(d, URLSAFE, 60) + "x",
    "Google client secret": lambda d: "GOCSPX-" + of(d, URLSAFE, 27) + "a",
    "Azure client secret": lambda d: of(d, ALNUM, 3) + "8Q~" + of(d, ALNUM, 34),
    "DigitalOcean": lambda d: "dop_v1_" + of(d, HEX, 64),
    "GitHub classic": lambda d: "ghp_" + of(d, ALNUM, 36),
    "GitHub app": lambda d: d.choice(["gho_", "ghu_", "ghs_", "ghr_"]) + of(d, ALNUM, 36),
    "GitHub fine-grained": lambda d: f"github_pat_{of(d, ALNUM, 22)}_{of(d, ALNUM, 59)}",
    "GitLab": lambda d: "glpat-" + of(d, ALNUM, 20),
    "GitLab runner": lambda d: "glrt-" + of(d, ALNUM, 20),
    "Bitbucket": lambda d: "ATBB" + of(d, ALNUM, 32),
    "Atlassian": lambda d: "ATATT3xFfGF0" + of(d, URLSAFE, 170) + "A",
    "Stripe": lambda d: d.choice(["sk_live_", "rk_live_", "sk_test_"]) + of(d, ALNUM, 24),
    "Stripe webhook": lambda d: "whsec_" + of(d, ALNUM, 32),
    "Square": lambda d: "sq0atp-" + of(d, ALNUM, 22),
    "Shopify": lambda d: "shpat_" + of(d, HEX, 32),
    "Slack bot": lambda d: (
        f"xoxb-{of(d, '123456789', 12)}-{of(d, '123456789', 12)}-{of(d, ALNUM, 24)}"
    ),
    "Slack app": lambda d: f"xapp-1-A{of(d, UPPER, 10)}-{of(d, '123456789', 13)}-{of(d, HEX, 64)}",
    "Slack webhook": lambda d: (
        f"https://hooks.slack.com/services/T{of(d, UPPER, 9)}/B{of(d, UPPER, 9)}/{of(d, ALNUM, 24)}"
    ),
    "Discord webhook": lambda d: (
        f"https://discord.com/api/webhooks/{of(d, '123456789', 18)}/{of(d, URLSAFE, 67)}a"
    ),
    "Telegram bot": lambda d: f"{of(d, '123456789', 10)}:AA{of(d, URLSAFE, 32)}a",
    "Twilio": lambda d: "SK" + of(d, HEX, 32),
    "SendGrid": lambda d: f"SG.{of(d, URLSAFE, 22)}.{of(d, URLSAFE, 42)}a",
    "Mailgun": lambda d: "key-" + of(d, HEX, 32),
    "Mailchimp": lambda d: of(d, HEX, 32) + "-us12",
    "OpenAI project": lambda d: "sk-proj-" + of(d, URLSAFE, 155) + "a",
    "OpenAI legacy": lambda d: "sk-" + of(d, ALNUM, 20) + "T3BlbkFJ" + of(d, ALNUM, 20),
    "OpenAI service": lambda d: "sk-svcacct-" + of(d, URLSAFE, 120) + "a",
    "Anthropic": lambda d: "sk-ant-api03-" + of(d, URLSAFE, 93) + "AA",
    "OpenRouter": lambda d: "sk-or-v1-" + of(d, HEX, 64),
    "Groq": lambda d: "gsk_" + of(d, ALNUM, 52),
    "xAI": lambda d: "xai-" + of(d, ALNUM, 80),
    "NVIDIA": lambda d: "nvapi-" + of(d, URLSAFE, 63) + "a",
    "Replicate": lambda d: "r8_" + of(d, ALNUM, 37),
    "Hugging Face": lambda d: "hf_" + of(d, string.ascii_letters, 34),
    "Perplexity": lambda d: "pplx-" + of(d, ALNUM, 48),
    "npm": lambda d: "npm_" + of(d, ALNUM, 36),
    "PyPI": lambda d: "pypi-AgEIcHlwaS5vcmc" + of(d, URLSAFE, 120) + "a",
    "RubyGems": lambda d: "rubygems_" + of(d, HEX, 48),
    "Docker Hub": lambda d: "dckr_pat_" + of(d, URLSAFE, 26) + "a",
    "JWT": jwt,
    "private key": private_key,
    "Grafana": lambda d: "glsa_" + of(d, ALNUM, 32) + "_" + of(d, HEX, 8),
    "Databricks": lambda d: "dapi" + of(d, HEX, 32),
    "HashiCorp Vault": lambda d: "hvs." + of(d, ALNUM, 95),
    "Linear": lambda d: "lin_api_" + of(d, ALNUM, 40),
    "Notion": lambda d: "ntn_" + of(d, "123456789", 11) + of(d, ALNUM, 35),
    "New Relic": lambda d: "NRAK-" + of(d, UPPER, 27),
}
"""Formats that are secrets wherever they stand."""


def password(dice: Dice) -> str:
    """As people and managers make them: letters, digits, a sign."""
    return of(dice, ALNUM, 10) + dice.choice("!#+=_.") + of(dice, string.digits, 2)


IN_CONTEXT: tuple[str, ...] = (
    "postgres://app:{}@db.internal:5432/shop",
    "mongodb+srv://root:{}@cluster0.mongodb.net/test",
    "redis://:{}@cache:6379/0",
    "amqp://guest:{}@mq:5672//",
    "https://deploy:{}@git.example.com/x.git",
    "Server=tcp:x.database.windows.net;User ID=sa;Password={};Encrypt=true",
    "export DB_PASSWORD={}",
    "PGPASSWORD={} psql -h db -U app",
    "MYSQL_ROOT_PASSWORD={}",
    "docker run -e POSTGRES_PASSWORD={} postgres",
    "mysql -u root -p{} shop",
    "mysqldump --user=root --password={} shop",
    "sshpass -p '{}' ssh root@host",
    "curl -u admin:{} https://api.example.com",
    "docker login -u ada -p {} registry.example.com",
    "echo 'ada:{}' | chpasswd",
    "echo '{}' | sudo -S apt update",
    "htpasswd -b -c .htpasswd ada {}",
    "redis-cli -h cache -a {} ping",
    "smbclient //host/share -U ada%{}",
    "openssl enc -aes-256-cbc -pass pass:{} -in a",
    "kubectl create secret generic db --from-literal=password={}",
    "ALTER USER ada WITH PASSWORD '{}';",
    "CREATE USER 'ada'@'%' IDENTIFIED BY '{}';",
    "machine example.com login ada password {}",
    "db.internal:5432:shop:app:{}",
    "requirepass {}",
    'password = "{}"',
    "password: {}",
    '{{"client_secret": "{}"}}',
    "<password>{}</password>",
    "aws_secret_access_key = {}",
    'psk="{}"',
    "spring.datasource.password={}",
    "ansible_become_password: {}",
    "Authorization: Bearer {}{}",
    "az login --service-principal -u app -p {} --tenant t",
    "the password is {}",
    "net user ada {} /add",
    "wget --http-password={} https://example.com/file",
)


def secrets() -> list[tuple[str, str, str]]:
    """Name, secret, and a text that it stands in: 200 of them."""
    dice = Dice("secrets")
    made = []
    while len(made) < 120:
        for name, make in TOKENS.items():
            secret = make(dice)
            around = dice.choice(["{}", "use {} for it", 'key = "{}"', "TOKEN: {}\n", "({})"])
            made.append((name, secret, around.format(secret)))
    made = made[:120]
    for number in range(80):
        context = IN_CONTEXT[number % len(IN_CONTEXT)]
        secret = password(dice)
        text = context.format(secret) if context.count("{}") < 2 else context.format(secret, secret)
        made.append((context, secret, text))
    return made


WORDS = re.findall(
    r"\w+",
    "the agent reads a file then counts lines and writes what it found about users groups keys "
    "tokens of the model password rules secret santa passwords are checked before access is given",
)

CODE = (
    "def login(user: str, password: str) -> bool:\n    return check(user, password)",
    "api_key = os.environ['OPENAI_API_KEY']",
    "token = await client.fetch_token(scope='read')",
    "max_tokens=4096, temperature=0.7, top_p=0.95",
    "if (password.length < 8) throw new Error('too short');",
    "SECRET_KEY = get_secret('django')",
    "const apiKey = process.env.API_KEY;",
    "password = getpass.getpass('Password: ')",
    'curl -H "Authorization: Bearer $TOKEN" https://api.example.com',
    "git clone git@github.com:ada/engine.git && cd engine",
    "ssh-keygen -t ed25519 -C ada@example.com",
    "for key, value in tokens.items(): print(key, value)",
    "docker run --rm -it -p 8080:80 nginx:1.27",
    "mysql -u root -p shop < dump.sql",
    "SELECT id, password_hash FROM users WHERE id = 42;",
    "postgres://user:<password>@host/db",
    "password: str | None = None",
    "tokenizer.apply_chat_template(messages, tokenize=False)",
    "kubectl get secrets --namespace default",
    "chage -M 90 user1; passwd -l user1",
)


def harmless() -> list[str]:
    """200 texts with nothing secret in them."""
    dice = Dice("harmless")
    made: list[str] = []
    for number in range(20):
        seed = f"{number}".encode()
        made.append(f"sha256:{hashlib.sha256(seed).hexdigest()}")
        made.append(f"commit {hashlib.sha1(seed).hexdigest()}")
        made.append(f'etag: "{hashlib.md5(seed).hexdigest()}"')
        made.append(f"request id {uuid.UUID(int=dice.getrandbits(128))}")
        image = base64.b64encode(dice.randbytes(600)).decode()
        made.append(f"data:image/png;base64,iVBORw0KGgo{image}")
        made.append(" ".join(dice.choices(WORDS, k=60)))
        made.append(CODE[number])
        made.append(f"https://example.com/items/{dice.randrange(10**9)}?page={number}&sort=key")
        made.append(f"The key takeaway of step {number} is that {dice.choice(WORDS)} matters.")
        made.append(
            json.dumps({"tokens": dice.randrange(10**6), "key": dice.choice(WORDS), "n": number})
        )
    return made
