package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

const (
	nodeYAML = `{apiVersion: v1, kind: Node, metadata: {name: node-a, labels: {g8s.host/gpu-type: T4}},
  status: {allocatable: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "4"}}}
`
	jobYAML = "kind: training\nversion: v0.1\njob: {name: train}\nenvironment: {image: i, command: [run]}\nresources: {pool: default, gpu: 3}\n"
)

// simulateWith runs the command in a folder with these files and returns what it prints.
func simulateWith(t *testing.T, files map[string]string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, problems bytes.Buffer
	cmd := newSimulateCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	err = cmd.Execute()
	return out.String(), problems.String(), err
}

func TestSimulate(t *testing.T) {
	files := map[string]string{
		"now.yaml": nodeYAML, "train.yaml": jobYAML,
		"nodes.csv":   "sn,cpu_milli,memory_mib,gpu,model\na,8000,1000,2,T4\n",
		"pods.csv":    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,10,1,500\n",
		"jobs.csv":    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:00:00,60,2,120,a\n",
		"policy.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nstrategy: Spread\n",
	}
	tests := map[string]struct {
		args []string
		want []string
	}{
		"a job of gpuctl on a live cluster":  {[]string{"--cluster=now.yaml", "--workload=train.yaml"}, []string{"shipped", "75.00 %", "1.0 GPUs"}},
		"where it went, as JSON":             {[]string{"--cluster=now.yaml", "--workload=train.yaml", "-o=json"}, []string{`"node": "node-a"`, `"pod": "default/train-0"`}},
		"a trace":                            {[]string{"--cluster=nodes.csv", "--workload=pods.csv"}, []string{"25.00 %"}},
		"a list of jobs, which run and end":  {[]string{"--cluster=nodes.csv", "--workload=jobs.csv"}, []string{"0.0 s"}},
		"a trace as published, inflated":     {[]string{"--cluster=nodes.csv", "--workload=pods.csv", "--arrivals=published"}, []string{"100.00 %"}},
		"a policy beside the configuration":  {[]string{"--cluster=nodes.csv", "--workload=pods.csv", "--policy=policy.yaml"}, []string{"policy"}},
		"the allocation by load, for a plot": {[]string{"--cluster=nodes.csv", "--workload=pods.csv", "-o=csv"}, []string{"shipped,25,25.000"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := simulateWith(t, files, append(tc.args, "--report=report.html")...)
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("%q is missing in:\n%s", want, stdout)
				}
			}
			if page, err := os.ReadFile("report.html"); err != nil || !bytes.Contains(page, []byte("<svg")) {
				t.Errorf("the report has no plot: %v", err)
			}
		})
	}
}

func TestSimulateRefuses(t *testing.T) {
	files := map[string]string{"now.yaml": nodeYAML, "empty.yaml": "", "train.yaml": jobYAML, "bad.yaml": "kind: GPUScoreArgs\n", "nodes.csv": "sn\n"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no cluster":               {nil, "--cluster is missing"},
		"a cluster without nodes":  {[]string{"--cluster=empty.yaml"}, "no node in it"},
		"a file that is not there": {[]string{"--cluster=none.yaml"}, "none.yaml"},
		"nothing to place":         {[]string{"--cluster=now.yaml"}, "name a file with --workload"},
		"a trace of another form":  {[]string{"--cluster=nodes.csv"}, "no column cpu_milli"},
		"an output it cannot do":   {[]string{"--cluster=now.yaml", "-o=xml"}, "want table, json or csv"},
		"a report it cannot draw":  {[]string{"--cluster=now.yaml", "--report=a.png"}, "ends in .html or .svg"},
		"arrivals it cannot do":    {[]string{"--cluster=now.yaml", "--arrivals=fast"}, "want listed, timed or published"},
		"published without trace":  {[]string{"--cluster=now.yaml", "--arrivals=published"}, "needs the node list"},
		"a policy with a mistake":  {[]string{"--cluster=now.yaml", "--workload=train.yaml", "--policy=bad.yaml"}, "bad.yaml"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := simulateWith(t, files, tc.args...)
			if err == nil || !strings.Contains(stderr, tc.want) {
				t.Errorf("stdout %q, stderr %q, want %q", stdout, stderr, tc.want)
			}
		})
	}
}

// recorded is a cluster of one node, at which a pod comes, is placed and ends.
const recorded = `{"at":"2026-03-02T09:00:00Z","type":"ADDED","object":{"kind":"Node","metadata":{"name":"a","resourceVersion":"1"},"status":{"allocatable":{"cpu":"64","memory":"256Gi","pods":"110","nvidia.com/gpu":"4"}}}}
{"at":"2026-03-02T09:00:01Z","type":"BOOKMARK","object":null}
{"at":"2026-03-02T09:00:02Z","type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"2"},"spec":{"schedulerName":"gpu-scheduler","containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}}
{"at":"2026-03-02T09:00:03Z","type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"3","annotations":{"g8s.host/decision":"1/2","g8s.host/gpu-devices":"{\"version\":1,\"containers\":{\"c\":[{\"uuid\":\"index-0\",\"index\":0}]}}"}},"spec":{"nodeName":"a","schedulerName":"gpu-scheduler","containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}}
{"at":"2026-03-02T09:00:13Z","type":"DELETED","object":{"kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"4"},"spec":{"nodeName":"a"}}}
`

func TestSimulateRecordings(t *testing.T) {
	files := map[string]string{"run.jsonl": recorded, "cut.jsonl": "", "now.yaml": nodeYAML}
	tests := map[string]struct {
		args      []string
		out, fail string
	}{
		"its decisions come out the same": {args: []string{"verify", "--recording=run.jsonl"}, out: "100.00 % of the decisions"},
		"the same, for programs":          {args: []string{"verify", "--recording=run.jsonl", "-o=json"}, out: `"samePlace": 1`},
		"its pods come again":             {args: []string{"--recording=run.jsonl"}, out: "0.0 s"},
		"no recording":                    {args: []string{"verify"}, fail: "--recording is missing"},
		"an output that it cannot do":     {args: []string{"verify", "--recording=run.jsonl", "-o=csv"}, fail: "want table or json"},
		"a recording that has not begun":  {args: []string{"verify", "--recording=cut.jsonl"}, fail: "record again"},
		"two clusters":                    {args: []string{"--recording=run.jsonl", "--cluster=now.yaml"}, fail: "leave out --cluster"},
		"a cluster that is not there":     {args: []string{"record", "--kubeconfig=none"}, fail: "give --kubeconfig"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := simulateWith(t, files, tc.args...)
			if tc.fail != "" && (err == nil || !strings.Contains(stderr, tc.fail)) {
				t.Errorf("%v, %q, want %q", err, stderr, tc.fail)
			}
			if tc.fail == "" && (err != nil || !strings.Contains(stdout, tc.out)) {
				t.Errorf("%v, %q, want %q", err, stdout, tc.out)
			}
		})
	}
}

// TestAReplayTellsWhatItDoesNotKnow: what a ledger said by which starts were promised.
func TestAReplayTellsWhatItDoesNotKnow(t *testing.T) {
	const learns = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gpu-scheduler
  plugins: {multiPoint: {enabled: [{name: GPUFilter}]}}
  pluginConfig:
  - name: GPUFilter
    args: {promiseLedger: "https://ledger.invalid"}
`
	const runs = `{"at":"2026-03-02T09:00:00Z","type":"ADDED","object":{"kind":"RunList","items":[{"namespace":"n","pool":"default","gpus":1,"seconds":60}]}}` + "\n"
	files := map[string]string{"run.jsonl": recorded, "knowing.jsonl": runs + recorded, "learns.yaml": learns}
	for name, tc := range map[string]struct {
		args []string
		want bool
	}{
		"it was not recorded":         {[]string{"--recording=run.jsonl", "--config=learns.yaml"}, true},
		"it was recorded":             {[]string{"--recording=knowing.jsonl", "--config=learns.yaml"}, false},
		"no ledger counts":            {[]string{"--recording=run.jsonl"}, false},
		"nor does one that is unused": {[]string{"--recording=knowing.jsonl"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, err := simulateWith(t, files, tc.args...)
			if told := strings.Contains(stderr, "starts are promised by deadlines alone"); err != nil || told != tc.want {
				t.Errorf("it tells: %v, want %v: %v, %s", told, tc.want, err, stderr)
			}
		})
	}
}
