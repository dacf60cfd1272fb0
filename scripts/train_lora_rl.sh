#!/bin/sh
# The guide's own line: [CONFIG [DIR [EPOCHS [SAMPLES]]]]; docs/ppo-guide.md has it in our words.
exec "${PYTHON:-python}" -m practicum "$0" "$@"
