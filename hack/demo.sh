#!/usr/bin/env bash
# The tour of `make demo`: a cluster of simulated GPU nodes, four jobs, where three of them landed, why the fourth cannot
# run, and a job that moves because its node is emptied. The cluster stays up until `make demo-down`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/bin:$PATH

title() { printf '\n== %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

gpu-sandbox up --api >/dev/null
if ! gpu-sandbox status >/dev/null; then
  gpu-sandbox status >&2 || true
  echo "A part of the cluster has crashed: make demo-down, then make demo" >&2
  exit 1
fi
exports=$(gpu-sandbox env)
eval "$exports"

title "The pools of this cluster"
show gpuctl get pools

title "Three jobs, some thirty lines of YAML each, and one that asks for what is not there"
# A demo that is run again starts afresh.
gpuctl delete -f examples/demo --ignore-not-found --timeout 30s >/dev/null
show gpuctl create -f examples/demo

for job in qwen2-7b-llamafactory-sft llama3-8b-inference data-prep-notebook; do
  bin/tools/kubectl wait pod -l "g8s.host/job=$job" --for=condition=Ready --timeout=60s >/dev/null
done
bin/tools/kubectl wait pod -l g8s.host/job=too-big --for=condition=PodScheduled=false --timeout=60s >/dev/null

title "Where they landed"
show gpuctl get jobs

title "Why one of them runs where it does, and why another waits"
show gpuctl why qwen2-7b-llamafactory-sft
show gpuctl why too-big

title "Its node is emptied for maintenance: it runs elsewhere at once, and pays no retry"
job=qwen2-7b-llamafactory-sft
node=$(bin/tools/kubectl get pod -l "g8s.host/job=$job" -o jsonpath='{.items[0].spec.nodeName}')
show gpuctl drain node "$node"
until bin/tools/kubectl wait pod -l "g8s.host/job=$job" --for=condition=Ready --timeout=30s >/dev/null 2>&1; do sleep 0.2; done
show gpuctl get jobs
bin/tools/kubectl get events --field-selector reason=ReplacingDisruptedPod -o custom-columns=EVENT:.reason,MESSAGE:.message
show gpuctl recover node "$node"

title "Who held which GPUs, from the first moment on"
show gpuctl usage --by job

cat <<TEXT

== What to type next
$(sed 's/^/  /' <<<"$exports")
  export PATH=$PWD/bin:$PWD/bin/tools:\$PATH
  gpuctl describe job qwen2-7b-llamafactory-sft     all about one job
  gpuctl logs llama3-8b-inference                   what its pods print
  gpuctl get nodes --pool training-pool             the nodes of a pool and their free GPUs
  gpuctl delete too-big                             give it up
  kubectl annotate pods -l g8s.host/job=qwen2-7b-llamafactory-sft sandbox.g8s.host/run-for=20s
                                                    simulated pods run forever: let these end in 20 s
  gpuctl wait qwen2-7b-llamafactory-sft             returns when it has ended
  gpuctl run --image busybox --gpu 1 'nvidia-smi'   a job without a file
  gpuctl create -f your.yaml                        docs/yaml.md says what may stand in it
  make demo-down                                    stop the cluster

== Or look at it in a browser
  $(gpu-sandbox up --api 2>&1 >/dev/null | sed -n 's/^The console is at \([^,]*\),.*/\1/p')
  kubectl create token console --duration 8h        prints what to sign in with; the certificate is one of the sandbox
TEXT
