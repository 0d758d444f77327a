package manifests

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"sigs.k8s.io/yaml"
)

// TestSchedulerIsNotBroaderThanStock compares our roles with those that every cluster gives its own scheduler.
func TestSchedulerIsNotBroaderThanStock(t *testing.T) {
	var stock []rbacv1.PolicyRule
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.Name == "system:kube-scheduler" || role.Name == "system:volume-scheduler" {
			stock = append(stock, role.Rules...)
		}
	}
	// The stock roles name kube-scheduler's lease; ours is named after our scheduler.
	for i, rule := range stock {
		stock[i].ResourceNames = slices.Clone(rule.ResourceNames)
		for j, name := range rule.ResourceNames {
			stock[i].ResourceNames[j] = strings.Replace(name, "kube-scheduler", "gpu-scheduler", 1)
		}
	}

	// Gangs and pools are ours alone.
	stock = append(stock,
		rbacv1.PolicyRule{APIGroups: []string{"scheduling.x-k8s.io"}, Resources: []string{"podgroups"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"podgroups"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"leaderworkerset.x-k8s.io"}, Resources: []string{"leaderworkersets"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"ray.io"}, Resources: []string{"rayclusters"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"kubeflow.org"}, Resources: []string{"jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"g8s.host"}, Resources: []string{"gpupools", "gpuquotas", "gpureservations"}, Verbs: []string{"get", "list", "watch"}},
	)

	// What the stock roles of 1.36 and 1.37 have, and those of an older version have behind a feature gate.
	devices := []string{"resource.k8s.io"}
	stock = append(stock,
		rbacv1.PolicyRule{APIGroups: devices, Resources: []string{"resourceclaims/binding"}, Verbs: []string{"update", "patch"}},
		rbacv1.PolicyRule{APIGroups: devices, Resources: []string{"resourceclaims"}, Verbs: []string{"create", "delete"}},
		rbacv1.PolicyRule{APIGroups: devices, Resources: []string{"devicetaintrules"}, Verbs: []string{"get", "list", "watch"}},
	)

	var ours []rbacv1.PolicyRule
	for _, document := range documents(t, "scheduler/rbac.yaml") {
		var role rbacv1.ClusterRole // a Role has the same fields here
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		ours = append(ours, role.Rules...)
	}
	if len(ours) < 10 {
		t.Fatalf("read %d rules, so the comparison would prove nothing", len(ours))
	}
	if covered, broader := validation.Covers(stock, ours); !covered {
		t.Errorf("the scheduler may do what a stock scheduler may not: %v", broader)
	}
}

// TestFilesAreListed fails on a file that a kustomization forgot.
func TestFilesAreListed(t *testing.T) {
	err := fs.WalkDir(FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(name) == "kustomization.yaml" {
			return err
		}
		list, err := fs.ReadFile(FS, path.Join(path.Dir(name), "kustomization.yaml"))
		if err != nil {
			return err
		}
		if !strings.Contains(string(list), "- "+path.Base(name)+"\n") {
			t.Errorf("%s is in no kustomization", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func documents(t *testing.T, name string) [][]byte {
	t.Helper()
	content, err := fs.ReadFile(FS, name)
	if err != nil {
		t.Fatal(err)
	}
	var documents [][]byte
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		documents = append(documents, []byte(document))
	}
	return documents
}
