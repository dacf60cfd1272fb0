#!/bin/sh
# Makes an environment for each agent framework that tests/clients runs: their pins exclude each
# other, and none of them belongs beside Practicum. One that is there already is left alone.
#
#     sh scripts/make_clients.sh .venv/bin/python .clients
set -eu

python=$1
folder=$2

make_environment() {
    name=$1
    shift
    if [ -e "$folder/$name/.ready" ]; then
        return
    fi
    echo "Installing $* into $folder/$name"
    "$python" -m venv --clear "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --quiet --disable-pip-version-check \
        --no-input "$@"
    touch "$folder/$name/.ready"
}

make_environment openai-agents openai-agents==0.24.0
make_environment pydantic-ai "pydantic-ai-slim[openai,anthropic]==2.66.0"
make_environment smolagents "smolagents[openai]==1.26.0"
make_environment langgraph langgraph==1.2.20 langchain-openai==1.7.3 langchain-anthropic==1.7.7
make_environment llama-index llama-index-core==0.14.25 llama-index-llms-openai-like==0.8.1
make_environment litellm litellm==1.106.2 mcp
make_environment crewai crewai==1.15.30
