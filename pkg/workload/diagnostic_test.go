package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/test/golden"
)

// TestDiagnostics compares the problems of each file in testdata/invalid with the text file beside it.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding files: %d, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs, diagnostics := Parse(filepath.Base(file), data)
			if len(docs) > 0 {
				t.Errorf("got %d documents of an invalid file", len(docs))
			}
			golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".txt", diagnostics.String()+"\n")
		})
	}
}

// training begins a document that is right, to which cases append one section.
const training = "kind: training\njob: {name: a}\nenvironment: {image: b}\n"

const inference = "kind: inference\njob: {name: a}\nenvironment: {image: b}\n"

const notebook = "kind: notebook\njob: {name: a}\nenvironment: {image: b}\n"

const compute = "kind: compute\njob: {name: a}\nenvironment: {image: b}\n"

// TestParseReports checks the first line of the only diagnostic of each text.
func TestParseReports(t *testing.T) {
	cases := map[string]struct {
		text, want string
	}{
		"an empty file":                {"", "t:1:1: the file is empty"},
		"a file of comments":           {"# a\n---\n# b\n", "t:1:1: the file holds only comments and no document"},
		"bytes that are no UTF-8":      {"kind: \xff\n", "t:1:7: the file is not UTF-8 text: save it with the encoding UTF-8"},
		"a document without a kind":    {"job: {name: a}\nenvironment: {image: i}\n", "t:1:1: kind is missing: write one of training, inference, notebook, compute, pool, quota or reservation"},
		"a kind nobody knows":          {"kind: cronjob\n", `t:1:7: unknown kind "cronjob": write one of training, inference, notebook, compute, pool, quota or reservation`},
		"a misspelt kind":              {"kind: Training\n", `t:1:7: unknown kind "Training" (did you mean "training"?)`},
		"a manifest of Kubernetes":     {"apiVersion: v1\nkind: Pod\n", `t:2:7: kind "Pod" with an apiVersion is a Kubernetes manifest: apply it with kubectl`},
		"a list instead of a document": {"- a\n", `t:1:1: a document must begin with a kind, such as "kind: training", not with a list`},
		"another version":              {"version: v2\n" + training, `t:1:10: version: "v2" is not v0.1 or v1`},
		"a misspelt field":             {training + "resources:\n  gpus: 4\n", `t:5:3: unknown field "gpus" in resources (did you mean "gpu"?)`},
		"an abbreviated field":         {training + "resources:\n  mem: 4Gi\n", `t:5:3: unknown field "mem" in resources (did you mean "memory"?)`},
		"a field in the wrong section": {training + "resources:\n  image: x\n", `t:5:3: unknown field "image" in resources (it belongs in environment)`},
		"a field of the top in a section": {training + "resources:\n  storage: {}\n",
			`t:5:3: unknown field "storage" in resources (it belongs at the top of the document)`},
		"a field twice":                          {training + "resources:\n  gpu: 1\n  gpu: 2\n", `t:6:3: duplicate field "gpu" in resources: line 5 has "gpu" already`},
		"a field twice in two spellings":         {training + "resources:\n  gpu: 1\n  gpu-type: T4\n  gpuType: T4\n", `t:7:3: duplicate field "gpuType" in resources: line 6 has "gpu-type" already`},
		"a section twice":                        {training + "job: {name: b}\n", `t:4:1: duplicate field "job" in the document: line 2 has "job" already`},
		"a required field missing":               {"kind: training\njob: {priority: low}\nenvironment: {image: b}\n", `t:2:1: job.name is missing (for example "name: qwen2-7b-sft")`},
		"a number misspelt, and what needs it":   {training + "resources: {gpuu: 2, gpu-type: A, gpu-share: 2Gi}\n", `t:4:13: unknown field "gpuu" in resources (did you mean "gpu"?)`},
		"its name of old, and what needs it":     {training + "resources: {accelerator_count: 2, gpu-type: A, gpu-share: 2Gi}\n", `t:4:13: unknown field "accelerator_count" in resources (it is called "gpu")`},
		"a number elsewhere, and what needs it":  {"kind: training\njob: {name: a, gpu: 2}\nenvironment: {image: b}\nresources: {gpu-share: 2Gi}\n", `t:2:16: unknown field "gpu" in job (it belongs in resources)`},
		"a required field misspelt":              {"kind: training\njob: {nam: a}\nenvironment: {image: b}\n", `t:2:7: unknown field "nam" in job (did you mean "name"?)`},
		"a required section misspelt":            {"kind: training\njob: {name: a}\nenvronment: {image: b}\n", `t:3:1: unknown field "envronment" in the document (did you mean "environment"?)`},
		"a path misspelt":                        {training + "storage: {workdirs: [{paht: /a}]}\n", `t:4:23: unknown field "paht" in storage.workdirs[0] (did you mean "path"?)`},
		"a stray backtick in a line of braces":   {"kind: training\njob: {name: a, description: \"`\", priority: `high}\nenvironment: {image: b}\n", "t:2:44: invalid YAML: this character cannot begin a value: put the text in quotes"},
		"a stray at sign behind wide characters": {"kind: training\njob: {name: a, description: 训练, user: @me}\n", "t:2:39: invalid YAML: this character cannot begin a value: put the text in quotes"},
		"a required section missing":             {"kind: training\njob: {name: a}\n", "t:1:1: environment is missing"},
		"a required section empty":               {"kind: training\njob: {name: a}\nenvironment:\n", "t:3:1: environment has no value"},
		"a field without a value":                {training + "resources:\n  gpu:\n", `t:5:3: resources.gpu has no value (for example "gpu: 4")`},
		"an empty section":                       {training + "storage:\n", "t:4:1: warning: storage is empty and has no effect"},
		"an empty list of sections":              {training + "storage: {workdirs: []}\n", "t:4:11: warning: storage.workdirs is empty and has no effect"},
		"an empty command":                       {"kind: training\njob: {name: a}\nenvironment: {image: b, command: []}\n", "t:3:34: warning: environment.command is empty and has no effect"},
		"a variable from an empty source":        {"kind: training\njob: {name: a}\nenvironment: {image: b, env: [{name: A, value-from: {}}]}\n", "t:3:41: warning: environment.env[0].value-from is empty and has no effect"},
		"a section that is a list":               {training + "resources: [gpu]\n", "t:4:12: resources must be a section with preset, pool, gpu, nodes, topology, gpu-type, gpu-share, mig, cpu, memory, shm, tolerations, time-limit, min-runtime, checkpoint-grace or idle-timeout, not a list"},
		"text that is a section":                 {training + "resources: {gpu: {count: 1}}\n", "t:4:18: resources.gpu must be one value (whole number), not a section"},
		"a service of a training job":            {training + "service: {port: 1}\n", "t:4:1: service is only for kind inference, notebook or compute, this is kind training"},
		"a ttl of a service":                     {"kind: inference\njob: {name: a, ttl: 1h}\nenvironment: {image: b}\n", "t:2:16: job.ttl is only for kind training, this is kind inference"},
		"a merge key":                            {training + "resources: {<<: {gpu: 1}}\n", "t:4:13: merge keys (<<) are not supported: write the fields out"},
		"a YAML tag":                             {training + "resources: {gpu: !!int 1}\n", "t:4:18: YAML tags such as !!int are not supported"},
		"a key that is no text":                  {training + "? [a]\n: b\n", "t:4:3: a key must be plain text, not a list"},

		"a name with other letters":        {"kind: training\njob: {name: Bad_Name}\nenvironment: {image: b}\n", `t:2:13: job.name: "Bad_Name" is not a valid name: use lower-case letters, digits and '-', with a letter or digit at both ends (for example "bad-name")`},
		"a name in Chinese":                {"kind: training\njob: {name: 训练任务}\nenvironment: {image: b}\n", `t:2:13: job.name: "训练任务" is not a valid name: use lower-case letters, digits and '-', with a letter or digit at both ends`},
		"a name with a dot":                {"kind: training\njob: {name: a.b}\nenvironment: {image: b}\n", `t:2:13: job.name: "a.b" is not a valid name: use lower-case letters, digits and '-', with a letter or digit at both ends (for example "a-b")`},
		"a beginning that is too long":     {"kind: training\njob: {generate-name: " + strings.Repeat("a", 58) + "-}\nenvironment: {image: b}\n", `t:2:22: job.generate-name: "` + strings.Repeat("a", 58) + `-" is too long: it has 59 characters, and at most 58 are allowed`},
		"a beginning in capitals":          {"kind: training\njob: {generateName: Sft-}\nenvironment: {image: b}\n", `t:2:21: job.generate-name: "Sft-" is not the beginning of a name: use lower-case letters, digits and '-', with a letter or digit first (for example "sft")`},
		"a name and the beginning of one":  {"kind: training\njob: {name: a, generate-name: b-}\nenvironment: {image: b}\n", "t:2:16: job.generate-name and job.name exclude each other: keep one of them"},
		"neither a name nor its beginning": {"kind: training\njob: {ttl: 7d}\nenvironment: {image: b}\n", `t:2:1: job.name is missing (for example "name: qwen2-7b-sft")`},
		"a made name of a gang, too long":  {"kind: training\njob: {generate-name: " + strings.Repeat("a", 57) + "-}\nenvironment: {image: b}\nresources: {nodes: 2}\n", `t:2:1: job.name: "` + strings.Repeat("a", 57) + `-xxxxx" is too long: it has 63 characters, and a job on several nodes may have at most 59`},
		"an empty name":                    {"kind: training\njob: {name: \"\"}\nenvironment: {image: b}\n", `t:2:13: job.name: "" is empty`},
		"an image with a space":            {"kind: training\njob: {name: a}\nenvironment: {image: a b}\n", `t:3:22: environment.image: "a b" is not the name of an image: invalid reference format`},
		"a command in one text":            {"kind: training\njob: {name: a}\nenvironment: {image: b, command: python a.py}\n", `t:3:34: environment.command must be a list, not "python a.py": write ["sh", "-c", "python a.py"] to run it in a shell`},
		"a variable with a bad name":       {"kind: training\njob: {name: a}\nenvironment: {image: b, env: {1A: x}}\n", `t:3:31: environment.env: "1A" is not the name of an environment variable: use letters, digits and '_', beginning with a letter or '_'`},
		"a variable without a value":       {"kind: training\njob: {name: a}\nenvironment: {image: b, env: {A: }}\n", `t:3:31: environment.env.A has no value: write "" for an empty one`},
		"a variable set twice":             {"kind: training\njob: {name: a}\nenvironment: {image: b, env: [{A: x}, {name: A}]}\n", "t:3:39: environment variable A is set twice: first on line 3"},
		"a variable with two values":       {"kind: training\njob: {name: a}\nenvironment: {image: b, env: [{name: A, value: x, value-from: {field-ref: {field-path: metadata.name}}}]}\n", "t:3:51: environment.env[0].value-from and environment.env[0].value exclude each other: keep one of them"},

		"a long name on several nodes":    {"kind: training\njob: {name: " + strings.Repeat("a", 60) + "}\nenvironment: {image: b}\nresources: {nodes: 2}\n", "t:2:13: job.name: \"" + strings.Repeat("a", 60) + "\" is too long: it has 60 characters, and a job on several nodes may have at most 59"},
		"a level that is misspelt":        {training + "resources: {nodes: 2, topology: {level: rak}}\n", `t:4:41: resources.topology.level: "rak" is not zone, rack or nvlink, nor the key of a label with its prefix, such as example.com/row (did you mean "rack"?)`},
		"a wait for what is required":     {training + "resources: {nodes: 2, topology: {level: rack, mode: required, wait: 10m}}\n", `t:4:69: resources.topology.wait is for mode: preferred: with required the job waits for as long as it takes`},
		"a topology without a level":      {training + "resources: {nodes: 2, topology: {mode: required}}\n", `t:4:23: resources.topology.level is missing (for example "level: rack")`},
		"segments of all nodes":           {training + "resources: {nodes: 8, topology: {level: rack, segment: 8}}\n", `t:4:47: warning: the job runs on 8 nodes, so all of them are one segment`},
		"segments of none":                {training + "resources: {nodes: 8, topology: {level: rack, segment: 0}}\n", `t:4:56: resources.topology.segment: "0" is less than 1`},
		"the topology of one node":        {training + "resources: {nodes: 1, topology: {level: rack}}\n", `t:4:23: warning: the job runs on one node, so resources.topology changes nothing`},
		"a topology without nodes":        {training + "resources: {topology: {level: rack}}\n", `t:4:13: resources.topology needs resources.nodes (for example "nodes: 2")`},
		"several nodes of a service":      {inference + "resources: {nodes: 2}\n", "t:4:13: resources.nodes is only for kind training, this is kind inference"},
		"no node":                         {training + "resources: {node_count: 0}\n", `t:4:25: resources.nodes: "0" is less than 1`},
		"variables of nodes without any":  {"kind: training\njob: {name: a}\nenvironment: {image: b, distributed: none}\n", `t:3:25: environment.distributed needs resources.nodes (for example "nodes: 2")`},
		"a gpu that is no number":         {training + "resources: {gpu: two}\n", `t:4:18: resources.gpu: "two" is not a whole number`},
		"half a gpu":                      {training + "resources: {gpu: 0.5}\n", `t:4:18: resources.gpu: "0.5" is not a whole number`},
		"a negative gpu":                  {training + "resources: {gpu: -1}\n", `t:4:18: resources.gpu: "-1" is less than 0`},
		"more gpus than any node has":     {training + "resources: {gpu: 9223372036854775807}\n", `t:4:18: resources.gpu: "9223372036854775807" is out of range: write 0 to 1024`},
		"more gpus than a number holds":   {training + "resources: {gpu: 99999999999999999999}\n", `t:4:18: resources.gpu: "99999999999999999999" is out of range: write 0 to 1024`},
		"an octal number":                 {training + "resources: {gpu: 010}\n", `t:4:18: resources.gpu: "010" is not a whole number`},
		"a negative cpu":                  {training + "resources: {cpu: -5}\n", `t:4:18: resources.cpu: "-5" is negative`},
		"no cpu":                          {training + "resources: {cpu: 0}\n", `t:4:18: resources.cpu: "0" is too little: write at least 1m`},
		"memory that is no amount":        {training + "resources: {memory: abc}\n", `t:4:21: resources.memory: "abc" is not an amount of memory such as 512Mi or 32Gi`},
		"memory without its unit":         {training + "resources: {memory: 32}\n", `t:4:21: resources.memory: "32" is less than 1Mi (did you mean 32Gi?)`},
		"memory in thousandths of a byte": {training + "resources: {memory: 512m}\n", `t:4:21: resources.memory: "512m" is less than 1Mi (did you mean 512Mi?)`},
		"memory in GB":                    {training + "resources: {memory: 32GB}\n", `t:4:21: resources.memory: "32GB" is not an amount of memory such as 512Mi or 32Gi (did you mean 32Gi?)`},
		"memory with an exponent":         {training + "resources: {memory: 1e999999999}\n", `t:4:21: resources.memory: "1e999999999" is not an amount of memory such as 512Mi or 32Gi`},
		"a shm larger than the memory":    {training + "resources: {memory: 1Gi, shm: 2Gi}\n", "t:4:31: resources.shm is larger than resources.memory (1Gi), of which it is a part"},
		"a shm mounted twice":             {training + "resources: {shm: 1Gi}\nstorage: {workdirs: [{path: /dev/shm}]}\n", "t:4:18: /dev/shm is mounted twice: by resources.shm and storage.workdirs[0]"},
		"a share of no gpu":               {training + "resources: {gpu-share: 2Gi}\n", `t:4:13: resources.gpu-share needs resources.gpu (for example "gpu: 4")`},
		"a type of no gpu":                {training + "resources: {gpu-type: T4}\n", `t:4:13: warning: the job asks for a gpu-type but for no GPU: add "gpu: 1" if it needs one`},
		"a type twice":                    {training + "resources: {gpu: 1, gpu-type: [T4, T4]}\n", `t:4:36: resources.gpu-type[1]: "T4" is in the list already`},
		"an empty list of types":          {training + "resources: {gpu: 1, gpu-type: []}\n", "t:4:31: resources.gpu-type is an empty list: leave it out to accept any"},
		"a type too many":                 {training + "resources:\n  gpu: 1\n  gpu-type:" + strings.Repeat("\n  - T4", 33) + "\n", "t:39:5: resources.gpu-type has 33 entries, and at most 32 are allowed: leave it out to accept any"},
		"a type with a space":             {training + "resources: {gpu: 1, gpu-type: A100 80G}\n", `t:4:31: resources.gpu-type: "A100 80G" cannot be the value of a node label: use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends (for example "A100-80G")`},
		"a pool in Chinese":               {training + "resources: {pool: 训练}\n", `t:4:19: resources.pool: "训练" cannot be the value of a node label: use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends`},
		"a duration without a unit":       {training + "resources: {time-limit: 60}\n", `t:4:25: resources.time-limit: "60" is not a duration: write a number with its unit, such as 90s, 30m, 24h or 7d`},
		"a duration that is too long":     {training + "resources: {time-limit: 99999d}\n", `t:4:25: resources.time-limit: "99999d" is too long: write at most 3650d`},
		"a toleration of nothing":         {training + "resources: {tolerations: [{value: x}]}\n", "t:4:27: resources.tolerations[0]: a toleration needs a key, or the operator Exists to accept every taint"},
		"a toleration of any value and one": {training + "resources: {tolerations: [{key: k, operator: Exists, value: x}]}\n",
			"t:4:61: resources.tolerations[0]: the operator Exists accepts every value: leave value out, or use Equal"},
		"seconds without NoExecute": {training + "resources: {tolerations: [{key: k, effect: NoSchedule, toleration-seconds: 1}]}\n",
			"t:4:76: resources.tolerations[0]: toleration-seconds needs the effect NoExecute"},

		"port 0":                          {inference + "service: {port: 0}\n", `t:4:17: service.port: "0" is less than 1`},
		"port 65536":                      {inference + "service: {port: 65536}\n", `t:4:17: service.port: "65536" is out of range: write 1 to 65535`},
		"a misspelt type":                 {inference + "service: {type: NodePorts}\n", `t:4:17: service.type: "NodePorts" is not ClusterIP, NodePort or LoadBalancer (did you mean "NodePort"?)`},
		"a health check without a slash":  {inference + "service: {health_check: health}\n", `t:4:25: service.health-check: "health" is not an absolute path: begin it with /`},
		"a startup timeout without check": {inference + "service: {startup-timeout: 1h}\n", `t:4:11: service.startup-timeout needs service.health-check (for example "health-check: /health")`},
		"a second notebook":               {notebook + "service: {replicas: 2}\n", "t:4:21: service.replicas: a notebook has exactly one replica"},
		"one replica of a notebook":       {notebook + "service: {replicas: 1}\n", "t:4:11: warning: a notebook always has one replica: service.replicas may be left out"},
		"a health check on no port":       {compute + "service: {health-check: /x}\n", `t:4:11: service.health-check needs service.port (for example "port: 8080")`},

		"a relative path":           {training + "storage: {workdirs: [{path: data}]}\n", `t:4:29: storage.workdirs[0].path: "data" is not an absolute path: begin it with /`},
		"a path with steps upwards": {training + "storage: {workdirs: [{path: /a/../b}]}\n", `t:4:29: storage.workdirs[0].path: "/a/../b" must not contain ".."`},
		"a mount over everything":   {training + "storage: {workdirs: [{path: /}]}\n", `t:4:29: storage.workdirs[0]: "/" cannot be mounted over: it would hide the whole image`},
		"a mount path with a colon": {training + "storage: {workdirs: [{path: /a, mount-path: \"/a:b\"}]}\n", `t:4:45: storage.workdirs[0].mount-path: "/a:b" must not contain a colon`},
		"a path mounted twice":      {training + "storage: {workdirs: [{path: /a}, {path: /b, mount-path: /a/}]}\n", "t:4:34: storage.workdirs[1]: /a is mounted twice: first on line 4"},
		"a workdir that is text":    {training + "storage: {workdirs: [/a]}\n", `t:4:22: storage.workdirs[0] must be a section with path, mount-path, read-only, type, pvc, size or storage-class, not "/a"`},
		"a workdir without a path":  {training + "storage: {workdirs: [{pvc: c}]}\n", `t:4:22: storage.workdirs[0].path is missing (for example "path: /datasets")`},
		"a claim old and new":       {training + "storage: {workdirs: [{path: /a, pvc: c, size: 1Gi}]}\n", "t:4:41: storage.workdirs[0].size and storage.workdirs[0].pvc exclude each other: keep one of them"},
		"a class of no new claim":   {training + "storage: {workdirs: [{path: /a, storage-class: c}]}\n", `t:4:33: storage.workdirs[0].storage-class needs storage.workdirs[0].size (for example "size: 200Gi")`},
		"a type of a claim":         {training + "storage: {workdirs: [{path: /a, pvc: c, type: File}]}\n", "t:4:41: storage.workdirs[0].type and storage.workdirs[0].pvc exclude each other: keep one of them"},
		"a claim with two paths":    {training + "storage: {workdirs: [{path: /a, mount-path: /b, pvc: c}]}\n", "t:4:29: storage.workdirs[0]: a claim has one path: keep path or mount-path"},

		"a volume without a source":   {training + "storage: {data: {mountPath: /a}}\n", `t:4:11: storage.data.path is missing (for example "path: /datasets")`},
		"a volume in capitals":        {training + "storage: {Data: {mountPath: /a, size: 1Gi}}\n", `t:4:11: storage.Data: "Data" is not a valid name: use lower-case letters, digits and '-', with a letter or digit at both ends (for example "data")`},
		"a volume mounted twice":      {training + "storage: {workdirs: [{path: /a}], data: {mountPath: /a, size: 1Gi}}\n", "t:4:41: storage.data: /a is mounted twice: first on line 4"},
		"workdirs misspelt":           {training + "storage: {workdir: {path: /a}}\n", `t:4:11: unknown field "workdir" in storage (did you mean "workdirs"?)`},
		"a volume that is no section": {training + "storage: {data: /a}\n", `t:4:11: unknown field "data" in storage`},

		"replicas beside autoscaling":     {inference + "resources: {cpu: 1}\nservice: {replicas: 2, autoscaling: {max: 4, cpu-utilization: 80}}\n", "t:5:24: service.autoscaling and service.replicas exclude each other: keep one of them"},
		"autoscaling by nothing":          {inference + "service: {autoscaling: {max: 4}}\n", `t:4:11: service.autoscaling needs a measure: write "cpu-utilization: 80" or "gpu-utilization: 70"`},
		"autoscaling by GPUs without any": {inference + "service: {autoscaling: {max: 4, gpu-utilization: 70}}\n", `t:4:33: service.autoscaling.gpu-utilization needs resources.gpu (for example "gpu: 4")`},
		"autoscaling by cpu without any":  {inference + "service: {autoscaling: {max: 4, cpu-utilization: 70}}\n", `t:4:33: service.autoscaling.cpu-utilization needs resources.cpu (for example "cpu: 8")`},
		"autoscaling from more to less":   {inference + "resources: {gpu: 1}\nservice: {autoscaling: {min: 5, max: 4, targetGPU: 70}}\n", "t:5:30: service.autoscaling.min is 5, more than max, which is 4"},
		"autoscaling of a notebook":       {notebook + "service: {autoscaling: {max: 4, gpu-utilization: 70}}\n", "t:4:11: service.autoscaling is only for kind inference or compute, this is kind notebook"},
		"autoscaling beyond a hundred":    {inference + "resources: {gpu: 1}\nservice: {autoscaling: {max: 4, gpu-utilization: 170}}\n", `t:5:50: service.autoscaling.gpu-utilization: "170" is out of range: write 1 to 100`},

		"a pool without nodes":          {"kind: pool\nmetadata: {name: p}\n", "t:2:1: warning: the pool lists no nodes: it does not exist until a node is added to it"},
		"the pool of all other nodes":   {"kind: pool\nmetadata: {name: default}\nnodes: [n]\n", `t:2:18: metadata.name: "default" is the pool of all nodes that are in no other: take nodes out of theirs instead`},
		"a pool named twice":            {"kind: pool\nmetadata: {name: p}\npool: {name: p}\nnodes: [n]\n", `t:3:1: duplicate field "pool" in the document: line 2 has "metadata" already`},
		"nodes given twice":             {"kind: pool\nmetadata: {name: p}\nnodes: [n]\nspec: {nodes: [m]}\n", "t:3:1: nodes and spec.nodes exclude each other: keep one of them"},
		"a node listed twice":           {"kind: pool\nmetadata: {name: p}\nnodes: [n, n]\n", `t:3:12: node "n" is listed twice: first on line 3`},
		"a host with upper case":        {"kind: pool\nmetadata: {name: p}\nnodes: {Node1: {}}\n", `t:3:9: nodes: "Node1" is not a valid name: use lower-case letters, digits, '-' and '.', with a letter or digit at both ends`},
		"a quota of nothing":            {"kind: quota\nquota: {name: q}\n", `t:2:1: the quota names no namespace: write for example "namespace: {alice: {gpu: 8}}"`},
		"a quota that bounds nothing":   {"kind: quota\nquota: {name: q}\nnamespace: [{name: a}]\n", "t:3:13: namespace[0] bounds nothing: write at least one of gpu, shared-gpu, mig, cpu, memory, storage or pods"},
		"a namespace without amounts":   {"kind: quota\nquota: {name: q}\nnamespace: {a: }\n", "t:3:13: namespace.a has no value"},
		"a namespace twice":             {"kind: quota\nquota: {name: q}\nnamespace: [{name: a, gpu: 1}, {name: a, gpu: 2}]\n", `t:3:32: namespace "a" is listed twice: first on line 3`},
		"the namespace default twice":   {"kind: quota\nquota: {name: q}\ndefault: {gpu: 1}\nnamespace: {default: {gpu: 2}}\n", "t:4:12: the namespace default is given twice: keep default at the side of namespace, or in it"},
		"quotas at the top and in spec": {"kind: quota\nquota: {name: q}\nnamespace: {a: {gpu: 1}}\nspec: {namespace: {b: {gpu: 1}}}\n", "t:3:1: namespace and spec.namespace exclude each other: keep one of them"},
		"amounts of no namespace":       {"kind: quota\nmetadata: {name: q}\nspec: {gpu: 2}\n", `t:3:8: spec.gpu needs metadata.namespace (for example "namespace: alice")`},
		"one namespace and several":     {"kind: quota\nmetadata: {name: q, namespace: a}\nspec: {namespace: {b: {gpu: 1}}}\n", "t:2:21: metadata.namespace and spec.namespace exclude each other: keep one of them"},
		"one namespace without amounts": {"kind: quota\nmetadata: {name: q, namespace: a}\n", `t:2:21: metadata.namespace needs spec (for example "spec: {gpu: 8}")`},
		"a protocol of no port":         {compute + "service: {protocol: UDP}\n", `t:4:11: service.protocol needs service.port (for example "port: 8080")`},
		"a misspelt amount":             {"kind: quota\nquota: {name: q}\nnamespace: {a: {gpu: 1, mem: 1Gi}}\n", `t:3:25: unknown field "mem" in namespace.a (did you mean "memory"?)`},
		"an amount that is no number":   {"kind: quota\nquota: {name: q}\nnamespace:\n  a: {gpu: two}\n", `t:4:12: namespace.a.gpu: "two" is not a whole number`},
		"a namespace in capitals":       {"kind: quota\nquota: {name: q}\nnamespace: {Alice: {gpu: 1}}\n", `t:3:13: namespace: "Alice" is not a valid name: use lower-case letters, digits and '-', with a letter or digit at both ends (for example "alice")`},
		"memory without a unit, in all": {"kind: quota\nquota: {name: q}\ndefault: {memory: 40GB}\n", `t:3:19: default.memory: "40GB" is not an amount of memory such as 512Mi or 32Gi (did you mean 40Gi?)`},
		"a name taken in the same file": {training + "---\n" + inference, `t:5:1: the name "a" is taken already, on line 1`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, diagnostics := Parse("t", []byte(tc.text))
			var got []string
			for _, d := range diagnostics {
				first, _, _ := strings.Cut(d.String(), "\n")
				got = append(got, first)
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParseLimitsNames checks the longest name of each kind, and one character more.
func TestParseLimitsNames(t *testing.T) {
	for kind, most := range map[Kind]int{KindTraining: 63, KindInference: 53, KindNotebook: 54, KindCompute: 55} {
		t.Run(string(kind), func(t *testing.T) {
			document := "kind: " + string(kind) + "\njob: {name: %s}\nenvironment: {image: b}\n"
			parseOne(t, fmt.Sprintf(document, strings.Repeat("a", most)))

			_, diagnostics := Parse("t", fmt.Appendf(nil, document, strings.Repeat("a", most+1)))
			if len(diagnostics) != 1 || !strings.Contains(diagnostics[0].Message, "is too long") {
				t.Errorf("a name of %d characters gives:\n%s", most+1, diagnostics)
			}
		})
	}
}

func TestParseRefusesWhatIsTooLarge(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	cases := map[string]struct {
		text, want string
	}{
		"a file of 10 MB":                 {strings.Repeat("#23456789\n", 1_000_000), "the file is too large: it has 10000000 bytes, and at most 1048576 (1 MiB) are read"},
		"a document of 200 KB":            {training + "#" + strings.Repeat("x", 200_000), "the document is too large"},
		"a thousand and one documents":    {strings.Repeat("---\na\n", 1001), "the file holds 1001 documents, and at most 1000 are read"},
		"aliases that unfold to billions": {bomb, "the document has more than 20000 values, with its aliases unfolded"},
		"a long text and many aliases":    {"kind: training\njob:\n  name: a\n  description: &d " + strings.Repeat("x", 10_000) + "\nenvironment: {command: [" + strings.Repeat("*d, ", 3000) + "]}\n", "the document has more than 122880 bytes, with its aliases unfolded"},
		"an alias of itself":              {"a: &a [*a]\n", "the document is nested deeper than 40 levels"},
		"a depth of 50":                   {strings.Repeat("[", 50) + strings.Repeat("]", 50), "the document is nested deeper than 40 levels"},
		"a depth of 100,000":              {strings.Repeat("[", 100_000), "invalid YAML: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := Parse("t", []byte(tc.text))
			if len(docs) > 0 || len(diagnostics) != 1 || !strings.Contains(diagnostics[0].Message, tc.want) {
				t.Errorf("got %d documents and:\n%s", len(docs), diagnostics)
			}
		})
	}
}

func TestParseReportsAtMostFiftyProblems(t *testing.T) {
	_, diagnostics := Parse("t", []byte(training+"resources:\n"+strings.Repeat("  xxx: 1\n", 80)))
	if len(diagnostics) != maxDiagnostics+1 {
		t.Fatalf("got %d diagnostics, want %d", len(diagnostics), maxDiagnostics+1)
	}
	last := diagnostics[maxDiagnostics]
	if want := "t: 30 more problems are not shown: correct those above first"; last.String() != want {
		t.Errorf("got %q, want %q", last, want)
	}
	if !diagnostics.HasErrors() {
		t.Error("the cut list has no errors")
	}
}

// TestAliasesAreRefusedWithTheirPlace where text comes over the network.
func TestAliasesAreRefusedWithTheirPlace(t *testing.T) {
	docs, diagnostics := ParseWithoutAliases("t", []byte(training+"resources:\n  cpu: &n 4\n  gpu: *n\n"))
	want := "t:6:8: the alias *n is not accepted here: write out what it stands for"
	if len(docs) != 0 || len(diagnostics) != 1 || !strings.HasPrefix(diagnostics[0].String(), want) {
		t.Errorf("got %d documents and:\n%s", len(docs), diagnostics)
	}
}

func TestAliasesAreUnfolded(t *testing.T) {
	job := parseOne(t, training+"resources:\n  cpu: &n 4\n  gpu: *n\n").Job
	if job.Resources.GPU != 4 {
		t.Errorf("got %d GPUs, want 4", job.Resources.GPU)
	}
}

// TestAWrongKindHidesNothing: all mistakes of a document are reported at once, whatever is wrong with its kind, and none that the kind alone would make.
func TestAWrongKindHidesNothing(t *testing.T) {
	const job = "job: {name: a}\nenvironment: {image: i}\nresources: {gpus: 1, cpu: 1, memory: 1Gi}\n"
	tests := map[string]struct {
		text string
		want []string
	}{
		"misspelt":                     {"kind: trainng\n" + job, []string{"unknown kind", "gpus"}},
		"unlike any":                   {"kind: cronjob\n" + job, []string{"unknown kind", "gpus"}},
		"missing":                      {job, []string{"kind is missing", "gpus"}},
		"unlike any, with a service":   {"kind: webapp\n" + job + "service: {port: 80, replica: 2}\n", []string{"unknown kind", "gpus", "replica"}},
		"unlike any, of several nodes": {"kind: mpi\n" + strings.Replace(job, "cpu: 1", "nodes: 2, cpus: x", 1), []string{"unknown kind", "gpus", "cpus"}},
		"of Kubernetes":                {"kind: cronjob\nmetadata: {name: a}\nspec: {}\n", []string{"unknown kind"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := Parse("t", []byte(tc.text))
			if len(diagnostics) != len(tc.want) || len(docs) > 0 {
				t.Fatalf("%d documents, and %d mistakes, want %d: %v", len(docs), len(diagnostics), len(tc.want), diagnostics)
			}
			for i, want := range tc.want {
				if !strings.Contains(diagnostics[i].Message, want) {
					t.Errorf("mistake %d is %q, want %q", i, diagnostics[i].Message, want)
				}
			}
		})
	}
}
