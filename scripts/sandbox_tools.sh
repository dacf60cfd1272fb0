#!/bin/sh
# Installs the programs that sandboxes need, where that is allowed: bubblewrap, newuidmap, mmdebstrap.
# Without them everything else works, and the tests that need them are skipped with a reason.
set -eu

missing=""
command -v bwrap >/dev/null || missing="$missing bubblewrap"
command -v newuidmap >/dev/null || missing="$missing uidmap"
command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
[ -n "$missing" ] || exit 0

advice="type: sudo apt-get install$missing"
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "Sandboxes need$missing, not installed here; $advice"
    exit 0
fi
echo "Installing$missing for sandboxes"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the words are meant apart
{ apt-get update && apt-get install --yes --no-install-recommends $missing; } >/dev/null 2>&1 ||
    echo "Sandboxes need$missing and apt-get could not install them; $advice"
