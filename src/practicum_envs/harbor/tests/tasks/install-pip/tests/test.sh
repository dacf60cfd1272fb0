#!/bin/bash
if pytest -q -rA /tests/check_outputs.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
