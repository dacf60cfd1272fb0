#!/bin/bash
tmux new-session -d -s work -c /data
tmux -V > /data/version.txt
