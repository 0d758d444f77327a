package render

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestContract checks that rendering yields at least what the published mapping of gpuctl shows: every field
// of every expected object is there with that value, and lists have the expected entries first.
func TestContract(t *testing.T) {
	cases := map[string]struct {
		input    string
		expected []string
	}{
		"training":  {"training.yaml", []string{"training.expected-job.yaml"}},
		"inference": {"inference.yaml", []string{"inference.expected-deployment.yaml", "inference.expected-service.yaml"}},
		"notebook":  {"notebook.yaml", []string{"notebook.expected-deployment.yaml", "notebook.expected-service.yaml"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, _, err := Objects(parseFile(t, contractFile(tc.input))[0], Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(objects) != len(tc.expected) {
				t.Fatalf("got %d objects, want %d", len(objects), len(tc.expected))
			}
			for i, file := range tc.expected {
				if missing := subset(readTree(t, file), treeOf(t, objects[i]), ""); len(missing) > 0 {
					t.Errorf("%s:\n%s", file, strings.Join(missing, "\n"))
				}
			}
		})
	}
}

func TestContractOfPools(t *testing.T) {
	objects, _, err := Objects(parseFile(t, contractFile("pool.yaml"))[0], Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"node1": "A100-100G", "node2": "A800-20G"}
	if len(objects) != 1+len(want) {
		t.Fatalf("got %d objects, want a GPUPool and %d nodes", len(objects), len(want))
	}
	if declared, ok := objects[0].(*names.GPUPool); !ok || declared.Name != "train-pool" || declared.Spec.Description == "" {
		t.Errorf("the first object is %+v, want the GPUPool", objects[0])
	}
	for _, node := range objects[1:] {
		labels := node.GetLabels()
		if labels["g8s.host/pool"] != "train-pool" || labels["g8s.host/gpu-type"] != want[node.GetName()] {
			t.Errorf("node %s has labels %v", node.GetName(), labels)
		}
	}
}

func contractFile(name string) string {
	return filepath.Join("testdata", "contract", name)
}

func readTree(t *testing.T, name string) any {
	t.Helper()
	text, err := os.ReadFile(contractFile(name))
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func treeOf(t *testing.T, object client.Object) any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// subset returns what of want is not in got, by path.
func subset(want, got any, path string) []string {
	var missing []string
	switch want := want.(type) {
	case map[string]any:
		section, _ := got.(map[string]any)
		for key, value := range want {
			missing = append(missing, subset(value, section[key], path+"/"+key)...)
		}
	case []any:
		list, _ := got.([]any)
		for i, value := range want {
			var entry any
			if i < len(list) {
				entry = list[i]
			}
			missing = append(missing, subset(value, entry, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		if !sameScalar(want, got) {
			missing = append(missing, fmt.Sprintf("%s: got %v, want %v", path, got, want))
		}
	}
	return missing
}

// sameScalar compares values; an amount of a resource may be written as a number or as text.
func sameScalar(want, got any) bool {
	if want == got {
		return true
	}
	a, errA := resource.ParseQuantity(fmt.Sprint(want))
	b, errB := resource.ParseQuantity(fmt.Sprint(got))
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

func TestSubsetNoticesEveryDifference(t *testing.T) {
	want := map[string]any{"a": "x", "b": []any{"y", map[string]any{"c": 1.0}}}
	cases := map[string]any{
		"a value differs":        map[string]any{"a": "z", "b": []any{"y", map[string]any{"c": 1.0}}},
		"a key is missing":       map[string]any{"b": []any{"y", map[string]any{"c": 1.0}}},
		"an entry is missing":    map[string]any{"a": "x", "b": []any{"y"}},
		"entries are exchanged":  map[string]any{"a": "x", "b": []any{map[string]any{"c": 1.0}, "y"}},
		"a nested value differs": map[string]any{"a": "x", "b": []any{"y", map[string]any{"c": 2.0}}},
	}
	for name, got := range cases {
		t.Run(name, func(t *testing.T) {
			if len(subset(want, got, "")) == 0 {
				t.Error("not noticed")
			}
		})
	}
}
