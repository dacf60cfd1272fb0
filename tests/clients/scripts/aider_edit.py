"""aider: a file is written as it is asked for, over a stream, and its errors."""

import sys
from pathlib import Path

from aider.main import main

# Its own default is temperature 0, of which nothing can be learned: no token is drawn.
settings = "- {name: openai/tiny, edit_format: whole, use_temperature: false}\n"
Path(".aider.model.settings.yml").write_text(settings)
file = Path("sum.txt")
file.write_text("")
options = "--no-git --yes-always --no-check-update --no-show-model-warnings"
quiet = "--analytics-disable --no-pretty --no-show-release-notes --no-detect-urls --map-tokens 0"
asked = ["--message", "Write the sum of 17 and 25 into the file.", str(file)]
stream = "--stream" if sys.argv[1] == "streaming" else "--no-stream"
main(["--model", "openai/tiny", *options.split(), *quiet.split(), stream, *asked])
print(file.read_text().strip())
