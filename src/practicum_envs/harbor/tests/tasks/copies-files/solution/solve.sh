#!/bin/bash
cd "$NOTES"
for one in *; do sort -o "$one" "$one"; done
