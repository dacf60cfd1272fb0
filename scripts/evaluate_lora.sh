#!/bin/sh
# The guide's own line: CONFIG DIR/epoch_10 [evaluate|merge|both [SAMPLES]].
exec "${PYTHON:-python}" -m practicum "$0" "$@"
