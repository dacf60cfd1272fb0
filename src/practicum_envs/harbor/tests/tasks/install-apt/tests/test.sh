#!/bin/bash
if grep -q "^tmux 3" /data/version.txt && [ "$(cat /data/version.txt)" = "$(tmux -V)" ] && [ -S /tmp/tmux-0/default ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
