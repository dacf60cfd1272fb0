#!/bin/bash
if [ "$(stat -c %a /root/readme.txt)" = 400 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
