#!/bin/bash
# sbatch packaging/slurm.sh configs/office_qwen2.5_7b.yaml NAME
#
# A run on the nodes of one job: the first has the head and the learner, all of them environments
# and replicas. Practicum with the extras train, serve, gateway and ray is installed at one path
# that every node sees (PRACTICUM_VENV), and the folder of the runs as well. When the job's time is
# up Slurm warns, the run saves, and the same line goes on with it.
#SBATCH --job-name=practicum
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:INT@300
set -euo pipefail

config=${1:?type: sbatch packaging/slurm.sh CONFIG NAME}
name=${2:?type: sbatch packaging/slurm.sh CONFIG NAME}
bin=${PRACTICUM_VENV:-$PWD/.venv}/bin
port=${PRACTICUM_CLUSTER_PORT:-6379}

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=$(getent ahostsv4 "${nodes[0]}" | awk 'NR == 1 { print $1 }')

# One task a node: the first is the head, the others join it, and each stays until the job ends.
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --export="ALL,bin=$bin,head=$head,port=$port" \
    bash -c '
        here=$(getent ahostsv4 "$(hostname)" | awk "NR == 1 { print \$1 }")
        if [ "$SLURM_PROCID" -eq 0 ]; then
            exec "$bin/python" -m ray.scripts.scripts start --head --block --disable-usage-stats \
                --include-dashboard=false --node-ip-address "$head" --port "$port"
        fi
        sleep 20
        exec "$bin/python" -m ray.scripts.scripts start --block --disable-usage-stats \
            --node-ip-address "$here" --address "$head:$port"' &
nodes_job=$!
trap 'kill "$nodes_job" 2>/dev/null || true' EXIT

until "$bin/practicum" cluster status --address "$head:$port" --nodes "${#nodes[@]}"; do
    kill -0 "$nodes_job" || { echo "the nodes did not start" >&2; exit 1; }
    sleep 5
done

cluster="cluster={kind: ray, address: '$head:$port', workers: $((2 * ${#nodes[@]}))}"
sampler="sampler={kind: practicum, replicas: $((SLURM_GPUS_ON_NODE * ${#nodes[@]} - 1))}"
if [ -d "runs/$name" ]; then
    "$bin/practicum" train --resume "$name" "$cluster" "$sampler" &
else
    "$bin/practicum" train "$config" --name "$name" "$cluster" "$sampler" &
fi
run=$!
trap 'kill -INT "$run"' INT # Slurm warns: the run saves and ends
wait "$run" || wait "$run"
