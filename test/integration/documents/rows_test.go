package documents

// row is something that a document shows: a command of gpuctl, or a route.
type row struct {
	// shows is what the document shows, as it is written there.
	shows string
	// run is what is run instead, where the document has a placeholder.
	run string
	// code is the exit code, or the status, and want a regular expression of the output.
	code int
	want string
	// send is a file that a request sends.
	send string
	// differs says that docs/documents.md has this row, and why it is another.
	differs bool
}

// commands are those of the mapping, §3 and §7.4, in an order in which they can be run.
var commands = []row{
	{shows: "gpuctl create -f train-job.yaml", want: `^training/qwen2-7b-llamafactory-sft created`},
	{shows: "gpuctl create -f task1.yaml -f task2.yaml", want: `(?s)inference/llama3-8b-inference created.*notebook/data-prep-notebook created`},
	{shows: "gpuctl get jobs", want: `(?s)data-prep-notebook +notebook.*llama3-8b-inference +inference.*qwen2-7b-llamafactory-sft +training`},
	{shows: "gpuctl get jobs --pool training-pool", want: `^NAME.*\nqwen2-7b-llamafactory-sft .*\n$`},
	{shows: "gpuctl describe job <job-id>", run: "gpuctl describe job qwen2-7b-llamafactory-sft", want: `(?s)Name: +qwen2-7b.*GPU type: +A100-100G.*GPUs: +4 per pod`},
	{shows: "gpuctl logs <job-id>", run: "gpuctl logs qwen2-7b-llamafactory-sft", want: ``},
	{shows: "gpuctl pause <job-id>", run: "gpuctl pause qwen2-7b-llamafactory-sft", want: `qwen2-7b-llamafactory-sft paused`},
	{shows: "gpuctl resume <job-id>", run: "gpuctl resume qwen2-7b-llamafactory-sft", want: `qwen2-7b-llamafactory-sft resumed`},
	{shows: "gpuctl delete <job-id>", run: "gpuctl delete qwen2-7b-llamafactory-sft", want: `qwen2-7b-llamafactory-sft deleted`},

	{shows: "gpuctl create -f pool.yaml", want: `^pool/train-pool created`},
	{shows: "gpuctl get pools", want: `(?m)^train-pool +2/2 +16 `},
	{shows: "gpuctl describe pool <pool-name>", run: "gpuctl describe pool train-pool", want: `(?s)Description: +训练任务专用资源池.*node1 +Ready +A100-100G.*node2 +Ready +A800-20G`},
	{shows: "gpuctl remove node <node-name> --pool <pool-name>", run: "gpuctl remove node node1 --pool train-pool", want: `node/node1 `},
	{shows: "gpuctl add node <node-name> --pool <pool-name>", run: "gpuctl add node node1 --pool train-pool", want: `node/node1 `},
	{shows: "gpuctl add node node1 node2 --pool train-pool", want: `(?s)node/node1 .*node/node2 `},

	{shows: "gpuctl get nodes", want: `(?m)^node1 +Ready +train-pool +A100-100G +8 `},
	{shows: "gpuctl get nodes --pool <pool-name>", run: "gpuctl get nodes --pool train-pool", want: `^NAME.*\nnode1 .*\nnode2 .*\n$`},
	{shows: "gpuctl get nodes --gpu-type <gpu-type>", run: "gpuctl get nodes --gpu-type A800-20G", want: `^NAME.*\nnode2 .*\n$`},
	{shows: "gpuctl describe node <node-name>", run: "gpuctl describe node node1", want: `(?s)Labels: +.*g8s\.host/pool=train-pool.*Conditions:.*Ready +True`},
	{shows: "gpuctl label node <node-name> g8s.host/gpu-type=a100-80g", run: "gpuctl label node node1 g8s.host/gpu-type=a100-80g", code: 4, differs: true},
	{shows: "gpuctl label node <node-name> <label-key>=<label-value> --overwrite", run: "gpuctl label node node1 g8s.host/gpu-type=a100-80g --overwrite", want: `^node/node1 labelled\n$`},
	{shows: "gpuctl label node <node-name> <label-key>=<label-value> --overwrite", run: "gpuctl label node node1 accelerator=nvidia-tesla-v100 --overwrite", want: `^node/node1 labelled\n$`},
	{shows: "gpuctl get label <node-name> --key=g8s.host/gpu-type", run: "gpuctl get label node1 --key=g8s.host/gpu-type", want: `(?m)^node1 +g8s\.host/gpu-type +a100-80g$`},
	{shows: "gpuctl label node <node-name> <label-key> --delete", run: "gpuctl label node node1 accelerator --delete", want: `^node/node1 label removed: accelerator=nvidia-tesla-v100\n$`},
	{shows: "gpuctl delete -f pool.yaml", want: `pool/train-pool deleted`},
}

// routes are those of the mapping, §4.
var routes = []row{
	{shows: "POST /api/v1/jobs", send: "train-job.yaml", code: 201, want: `"jobId":"qwen2-7b-llamafactory-sft"`},
	{shows: "POST /api/v1/jobs/batch", send: "batch.json", code: 201, want: `"success":\[\{"jobId":"b1"`},
	{shows: "GET /api/v1/jobs", code: 200, want: `"name":"qwen2-7b-llamafactory-sft"`},
	{shows: "GET /api/v1/jobs/{jobId}", run: "GET /api/v1/jobs/qwen2-7b-llamafactory-sft", code: 200, want: `"jobId":"qwen2-7b-llamafactory-sft"`},
	{shows: "GET /api/v1/jobs/{jobId}/logs", run: "GET /api/v1/jobs/qwen2-7b-llamafactory-sft/logs", code: 200, want: `"logs":`},
	{shows: "GET /api/v1/jobs/{jobId}/metrics", run: "GET /api/v1/jobs/qwen2-7b-llamafactory-sft/metrics", code: 503, want: `"code":"NotConfigured"`, differs: true},
	{shows: "DELETE /api/v1/jobs/{jobId}", run: "DELETE /api/v1/jobs/qwen2-7b-llamafactory-sft", code: 200, want: `"status":"terminating"`},
	{shows: "POST /api/v1/pools", send: "pool.yaml", code: 201, want: `"name":"train-pool","status":"created"`},
	{shows: "GET /api/v1/pools", code: 200, want: `"name":"train-pool","description":"训练任务专用资源池"`},
	{shows: "GET /api/v1/pools/{poolName}", run: "GET /api/v1/pools/train-pool", code: 200, want: `"nodes":\["node1","node2"\]`},
	{shows: "GET /api/v1/nodes", code: 200, want: `"nodeName":"node1"`},
	{shows: "GET /api/v1/nodes/{nodeName}", run: "GET /api/v1/nodes/node2", code: 200, want: `"key":"g8s.host/gpu-type","value":"A800-20G"`},
	{shows: "POST /api/v1/nodes/{nodeName}/labels", run: "POST /api/v1/nodes/node1/labels", send: "label.json", code: 200, want: `"label":\{"accelerator":"nvidia-tesla-v100"\}`},
	{shows: "GET /api/v1/nodes/labels", run: "GET /api/v1/nodes/labels?limit=500", code: 200, want: `"nodeName":"node1","labelKey":"accelerator","labelValue":"nvidia-tesla-v100"`},
	{shows: "DELETE /api/v1/nodes/{nodeName}/labels/{key}", run: "DELETE /api/v1/nodes/node1/labels/accelerator", code: 200, want: `"label":"accelerator"`},
	{shows: "DELETE /api/v1/nodes/{nodeName}/labels/{key}", run: "DELETE /api/v1/nodes/node1/labels/g8s.host/gpu-type", code: 200, want: `"label":"g8s.host/gpu-type"`},
	{shows: "DELETE /api/v1/pools/{poolName}", run: "DELETE /api/v1/pools/train-pool", code: 200, want: `"status":"deleted"`},
}
