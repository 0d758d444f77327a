package trace_test

import (
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"

func TestReadPods(t *testing.T) {
	tests := map[string]struct {
		csv  string
		want trace.Pod
	}{
		"a share of one GPU": {
			header + "a,6000,12288,1,460,,LS,427061,427071.5\n",
			trace.Pod{Name: "a", MilliCPU: 6000, MemoryMiB: 12288, GPUs: 1, MilliGPU: 460, Models: []string{},
				Created: 427061 * time.Second, Deleted: 427071500 * time.Millisecond},
		},
		"several GPUs of some models": {
			header + "a,1,2,8,1000,V100M16|V100M32,LS,0,1\n",
			trace.Pod{Name: "a", MilliCPU: 1, MemoryMiB: 2, GPUs: 8, MilliGPU: 1000, Models: []string{"V100M16", "V100M32"}, Deleted: time.Second},
		},
		"no GPU, so no share of one": {
			header + "a,1,2,0,1000,,LS,0,0\n",
			trace.Pod{Name: "a", MilliCPU: 1, MemoryMiB: 2, Models: []string{}},
		},
		"a list without times": {
			"name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,1,1000\n",
			trace.Pod{Name: "a", MilliCPU: 1, MemoryMiB: 2, GPUs: 1, MilliGPU: 1000, Models: []string{}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := trace.ReadPods(strings.NewReader(tc.csv))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]trace.Pod{tc.want}, got); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadPodsRefuses(t *testing.T) {
	tests := map[string]struct{ csv, want string }{
		"nothing":                  {"", "the list is empty"},
		"a column that is missing": {"name,cpu_milli\n", "no column memory_mib"},
		"a word for a number":      {header + "a,1,2,one,1000,,LS,0,0\n", `line 2: column num_gpu is "one"`},
		"a negative number":        {header + "a,-1,2,1,1000,,LS,0,0\n", `column cpu_milli is "-1"`},
		"a number beyond 31 bits":  {header + "a,1,2,9999999999,1000,,LS,0,0\n", "column num_gpu"},
		"more than a whole GPU":    {header + "a,1,2,1,1001,,LS,0,0\n", `column gpu_milli is "1001": want 1 to 1000`},
		"a share of several GPUs":  {header + "a,1,2,2,500,,LS,0,0\n", "want 1000 for several GPUs"},
		"a time that is no number": {header + "a,1,2,1,500,,LS,NaN,0\n", "column creation_time"},
		"a row that is too short":  {header + "a,1\n", "wrong number of fields"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := trace.ReadPods(strings.NewReader(tc.csv))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestTheTracesThatAreKept(t *testing.T) {
	nodes, err := trace.ReadNodes(open(t, "testdata/openb_node_list_gpu_node.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := trace.ReadPods(open(t, "testdata/openb_pod_list_default.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	gpus, asked := int64(0), int64(0)
	for i := range nodes {
		gpus += nodes[i].GPUs
	}
	for i := range pods {
		asked += pods[i].TotalMilliGPU()
	}
	if len(nodes) != 1213 || gpus != 6212 || len(pods) != 8152 || asked != 6_086_800 {
		t.Errorf("%d nodes of %d GPUs, %d pods that ask for %d milli-GPUs", len(nodes), gpus, len(pods), asked)
	}
}

func open(t *testing.T, path string) io.Reader {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}
