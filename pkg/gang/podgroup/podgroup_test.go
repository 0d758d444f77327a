package podgroup

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

func TestPodGroupsAreReadWhateverTheyHold(t *testing.T) {
	many := map[string]any{}
	for i := range maxResources + 1 {
		many[fmt.Sprint("r", i)] = "1"
	}
	long := strings.Repeat("x", 1<<20)
	tests := map[string]struct {
		spec    any
		want    Group
		problem string
	}{
		"nothing is one member": {nil, Group{MinMember: 1}, ""},
		"all there is": {
			map[string]any{"minMember": int64(4), "scheduleTimeoutSeconds": int64(20), "minResources": map[string]any{"cpu": "500m", "memory": "64Gi", "nvidia.com/gpu": int64(32), "x": "1e3"}},
			Group{MinMember: 4, Timeout: 20 * time.Second, MinResources: map[corev1.ResourceName]float64{"cpu": .5, "memory": 64 << 30, "nvidia.com/gpu": 32, "x": 1000}}, "",
		},
		"the most members":                    {map[string]any{"minMember": int64(10_000)}, Group{MinMember: 10_000}, ""},
		"one more":                            {map[string]any{"minMember": int64(10_001)}, Group{}, "spec.minMember is 10001, want a whole number from 1 to 10000"},
		"a million members":                   {map[string]any{"minMember": int64(1_000_000)}, Group{}, "spec.minMember is 1000000"},
		"more members than fit in 32 bits":    {map[string]any{"minMember": int64(3_000_000_000)}, Group{}, "spec.minMember is 3000000000"},
		"more than fit in 64":                 {map[string]any{"minMember": 1e30}, Group{}, "spec.minMember is 1e+30"},
		"no member":                           {map[string]any{"minMember": int64(0)}, Group{}, "spec.minMember is 0"},
		"less than none":                      {map[string]any{"minMember": int64(-1)}, Group{}, "spec.minMember is -1"},
		"a text for a number":                 {map[string]any{"minMember": long}, Group{}, `spec.minMember is "xxx`},
		"a list for a number":                 {map[string]any{"minMember": []any{long}}, Group{}, "spec.minMember is a list"},
		"a spec that is none":                 {"x", Group{}, "spec is no object"},
		"a timeout that fits nowhere":         {map[string]any{"scheduleTimeoutSeconds": int64(3_000_000_000)}, Group{MinMember: 1, Timeout: 15 * time.Minute}, ""},
		"a timeout in the past":               {map[string]any{"scheduleTimeoutSeconds": int64(-1)}, Group{}, "spec.scheduleTimeoutSeconds is -1, want a whole number from 0 to 900"},
		"an amount that Kubernetes refuses":   {map[string]any{"minResources": map[string]any{"cpu": "1e1.5"}}, Group{}, `spec.minResources.cpu is "1e1.5", want an amount such as 500m, 8 or 64Gi`},
		"an amount without end":               {map[string]any{"minResources": map[string]any{"cpu": "1e999999999"}}, Group{}, `spec.minResources.cpu is "1e999999999"`},
		"a negative amount":                   {map[string]any{"minResources": map[string]any{"cpu": "-1"}}, Group{}, `spec.minResources.cpu is "-1"`},
		"a negative number":                   {map[string]any{"minResources": map[string]any{"cpu": int64(-1)}}, Group{}, `spec.minResources.cpu is -1`},
		"an amount of a megabyte":             {map[string]any{"minResources": map[string]any{"cpu": strings.Repeat("1", 1<<20)}}, Group{}, `spec.minResources.cpu is "111`},
		"more resources than can be added up": {map[string]any{"minResources": many}, Group{}, "spec.minResources has 17 resources, want at most 16"},
		"a name of a megabyte":                {map[string]any{"minResources": map[string]any{long: "1"}}, Group{}, "a resource of 1048576 characters"},
		"resources that are a list":           {map[string]any{"minResources": []any{}}, Group{}, "spec.minResources is a list"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Read(&unstructured.Unstructured{Object: map[string]any{"spec": tc.spec}})
			if len(got.Problem) > 500 || (tc.problem == "") != (got.Problem == "") || !strings.Contains(got.Problem, tc.problem) {
				t.Fatalf("problem %.600q, want %q", got.Problem, tc.problem)
			}
			if tc.problem != "" {
				return
			}
			if diff := cmp.Diff(&tc.want, got, cmp.AllowUnexported(Group{}, placement.Layout{}), cmpopts.IgnoreTypes(metav1.ObjectMeta{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheBoundsAreThoseOfTheCRD, so that what the API server takes the scheduler does not refuse, nor the other way round.
func TestTheBoundsAreThoseOfTheCRD(t *testing.T) {
	bounds := boundsOfTheCRD(t)
	got := map[string]any{}
	for _, bound := range []string{"minMember/maximum", "scheduleTimeoutSeconds/minimum", "minResources/maxProperties"} {
		got[bound] = bounds[bound]
	}
	want := map[string]any{"minMember/maximum": float64(placement.MaxMembers), "scheduleTimeoutSeconds/minimum": 0., "minResources/maxProperties": float64(maxResources)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hack/podgroup-bounds.yaml has other bounds than podgroup.go (-podgroup.go +the file):\n%s", diff)
	}
	rules := fmt.Sprint(bounds["minResources/x-kubernetes-validations"])
	if length := fmt.Sprintf("size(name) <= %d)", maxNameLength); !strings.Contains(rules, length) {
		t.Errorf("no rule of the CRD says %q: %s", length, rules)
	}
	pattern := regexp.MustCompile(`matches\('(.+)'\)`).FindStringSubmatch(rules)
	if pattern == nil {
		t.Fatalf("no rule of the CRD says how an amount is written: %s", rules)
	}
	written := regexp.MustCompile(pattern[1])
	for _, amount := range []string{
		"8", "+8", "-8", "500m", "64Gi", "64gi", "Gi", "1.5", "1.", ".5", ".", "", "1e3", "1E-10", "1e+10", "1e100", "1e1.5", "1e999999999",
		strings.Repeat("9", 18), strings.Repeat("9", 19), "." + strings.Repeat("9", 9), "." + strings.Repeat("9", 10), "1 Gi", "1n", "1x",
	} {
		if crd, ours := written.MatchString(amount), writtenQuantity.MatchString(amount); crd != ours {
			t.Errorf("the amount %q: the CRD takes it: %t, the scheduler: %t", amount, crd, ours)
		}
	}
}

// boundsOfTheCRD are what is added to the CRD's fields of the spec, by field and bound.
func boundsOfTheCRD(t *testing.T) map[string]any {
	t.Helper()
	file, err := os.ReadFile("../../../hack/podgroup-bounds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var patch []struct {
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if err := yaml.Unmarshal(file, &patch); err != nil {
		t.Fatal(err)
	}
	bounds := map[string]any{}
	for _, added := range patch {
		if bound, ok := strings.CutPrefix(added.Path, "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"); ok {
			bounds[bound] = added.Value
		}
	}
	return bounds
}
