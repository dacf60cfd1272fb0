#!/bin/bash
if (cd "$NOTES" && [ "$(ls | tr "\n" " ")" = "extra.txt first.txt written.txt " ] && [ "$(stat -c %a extra.txt)" = 600 ] && [ $(cat * | wc -l) = 7 ] && for one in *; do sort -c "$one" || exit 1; done); then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
