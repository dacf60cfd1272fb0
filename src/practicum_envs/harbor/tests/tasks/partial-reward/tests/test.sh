#!/bin/bash
one=0; two=0
[ -e /out/one ] && one=0.5
[ -e /out/two ] && two=0.5
echo "{\"reward\": $(awk "BEGIN {print $one + $two}"), \"files\": $(ls /out | wc -l)}" > /logs/verifier/reward.json
echo 0 > /logs/verifier/reward.txt
