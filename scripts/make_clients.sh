#!/bin/sh
# Makes an environment for each agent framework that tests/clients runs: their pins exclude each
# other, and none of them belongs beside Practicum. One that holds what is asked for is left alone.
#
#     sh scripts/make_clients.sh .venv/bin/python .clients
set -eu

python=$1
folder=$2

make_environment() {
    name=$1
    shift
    if [ "$(cat "$folder/$name/.ready" 2> /dev/null)" = "$*" ]; then
        return
    fi
    echo "Installing $* into $folder/$name"
    "$python" -m venv --clear "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --quiet --disable-pip-version-check \
        --no-input "$@"
    echo "$*" > "$folder/$name/.ready"
}

make_environment openai-agents openai-agents==0.24.0
make_environment pydantic-ai "pydantic-ai-slim[openai,anthropic]==2.66.0"
make_environment smolagents "smolagents[openai]==1.26.0"
make_environment langgraph langgraph==1.2.22 langchain==1.4.7 langchain-openai==1.7.3 \
    langchain-anthropic==1.7.7
make_environment llama-index llama-index-core==0.14.25 llama-index-llms-openai-like==0.8.1
make_environment litellm litellm==1.106.2 mcp
make_environment crewai crewai==1.15.30
make_environment instructor instructor==1.17.0
make_environment agno agno==3.1.10 openai
make_environment autogen autogen-agentchat==0.7.5 "autogen-ext[openai]==0.7.5"
make_environment strands "strands-agents[openai]==1.62.0"
make_environment mini-swe-agent mini-swe-agent==2.4.6 mcp
make_environment dspy dspy==3.4.1
make_environment haystack haystack-ai==3.4.0
make_environment semantic-kernel semantic-kernel==1.45.0
make_environment google-adk google-adk==2.13.0 litellm==1.106.2 mcp
make_environment inspect-ai inspect-ai==0.3.285 openai==3.51.0 anthropic==2.9.0
make_environment outlines outlines==1.3.3 openai==3.51.0
make_environment guidance guidance==0.3.1 openai==3.51.0
make_environment aider aider-chat==0.86.2

# The libraries of npm share one folder. Without npm their tests are skipped.
if [ ! -e "$folder/node/.ready" ] && command -v npm > /dev/null; then
    echo "Installing the libraries of npm into $folder/node"
    mkdir -p "$folder/node"
    printf '{"type": "module", "private": true}\n' > "$folder/node/package.json"
    (cd "$folder/node" && npm install --silent --no-audit --no-fund openai@6.49.0 \
        @anthropic-ai/sdk@1.9.0 ai@6.0.326 @ai-sdk/openai@3.0.139 @ai-sdk/anthropic@3.0.138 \
        @ai-sdk/openai-compatible@2.0.87 zod@4.6.7)
    touch "$folder/node/.ready"
fi
