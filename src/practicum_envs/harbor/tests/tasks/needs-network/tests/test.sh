#!/bin/bash
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
uvx -p 3.13 -w pytest==8.4.1 pytest /tests/check_outputs.py
