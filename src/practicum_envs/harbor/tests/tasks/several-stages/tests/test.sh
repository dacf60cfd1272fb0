#!/bin/bash
if grep -qx 42 /app/said; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
