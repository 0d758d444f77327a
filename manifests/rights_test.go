package manifests

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/rights.txt")

// TestRights compares every right that we ship, verb by verb, with what is written down: a right more is seen in a
// review, whatever file it is in.
func TestRights(t *testing.T) {
	var rights []string
	for _, file := range []string{"agent/rbac.yaml", "controller/rbac.yaml", "ledger/rbac.yaml", "ledger/address/rbac.yaml", "monitoring/access/reader.yaml", "server/rbac.yaml", "server/roles.yaml",
		"scheduler/rbac.yaml", "scheduler/explain-reader.yaml", "scheduler/lease-reader.yaml", "simulated-cloud/rbac.yaml", "spot/rbac.yaml", "spot/roles.yaml", "tenancy/roles.yaml", "tenancy/team.yaml"} {
		for _, document := range documents(t, file) {
			rights = append(rights, rightsOf(t, file, document)...)
		}
	}
	slices.Sort(rights)
	got := strings.Join(rights, "\n") + "\n"
	const golden = "testdata/rights.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("rights (-written down +shipped); -update writes them down:\n%s", diff)
	}
}

// rightsOf has a line for each verb of each resource, and for each subject of a binding.
func rightsOf(t *testing.T, file string, document []byte) []string {
	t.Helper()
	var object struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Rules             []rbacv1.PolicyRule     `json:"rules"`
		Subjects          []rbacv1.Subject        `json:"subjects"`
		RoleRef           rbacv1.RoleRef          `json:"roleRef"`
		Aggregation       *rbacv1.AggregationRule `json:"aggregationRule"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if object.Aggregation != nil {
		t.Errorf("%s: %s gathers rights that no review sees", file, object.Name)
	}
	role := fmt.Sprintf("%s %s", object.Kind, object.Name)
	var out []string
	for _, subject := range object.Subjects {
		out = append(out, fmt.Sprintf("%s: %s of %s %s/%s", role, object.RoleRef.Name, subject.Kind, subject.Namespace, subject.Name))
	}
	for _, rule := range object.Rules {
		for _, what := range resourcesOf(rule) {
			for _, verb := range rule.Verbs {
				if verb == "*" || strings.Contains(what, "*") && len(rule.NonResourceURLs) == 0 {
					t.Errorf("%s: %s may %s %s: name what it may", file, object.Name, verb, what)
				}
				out = append(out, fmt.Sprintf("%s: %s %s", role, what, verb))
			}
		}
	}
	return out
}

func resourcesOf(rule rbacv1.PolicyRule) []string {
	out := slices.Clone(rule.NonResourceURLs)
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if group != "" {
				resource += "." + group
			}
			if len(rule.ResourceNames) > 0 {
				resource += fmt.Sprint(rule.ResourceNames)
			}
			out = append(out, resource)
		}
	}
	return out
}
