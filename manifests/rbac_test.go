package manifests

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// grant is what a binding says: who has which role, and in which namespace, "" for the whole cluster.
type grant struct {
	Role      rbacv1.RoleRef
	Namespace string
	Subjects  []rbacv1.Subject
}

// TestTheSchedulersRightsAreItsOwn reads every binding of manifests/scheduler: each role goes to the scheduler's account
// and to nobody else, and in no more namespaces than it must. What everybody may do is to see who leads.
func TestTheSchedulersRightsAreItsOwn(t *testing.T) {
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	account := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "gpu-scheduler", Namespace: metav1.NamespaceSystem}}
	want := map[string]grant{
		"g8s:gpu-scheduler (ClusterRoleBinding)": {role("ClusterRole", "g8s:gpu-scheduler"), "", account},
		"g8s:gpu-scheduler (RoleBinding)":        {role("Role", "g8s:gpu-scheduler"), metav1.NamespaceSystem, account},
		"g8s:gpu-scheduler-lease-reader (RoleBinding)": {
			role("Role", "g8s:gpu-scheduler-lease-reader"), metav1.NamespaceSystem,
			[]rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
		},
		"g8s:gpu-scheduler:authentication-reader (RoleBinding)": {
			role("Role", "extension-apiserver-authentication-reader"), metav1.NamespaceSystem, account,
		},
	}
	if diff := cmp.Diff(want, grants(t, "scheduler")); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

// TestRightsOnLeasesAreOfOneNamespace: with the same rules in a ClusterRole, the scheduler could take any Lease of that
// name, and create any.
func TestRightsOnLeasesAreOfOneNamespace(t *testing.T) {
	for _, document := range documents(t, "scheduler/rbac.yaml") {
		var role rbacv1.ClusterRole // a Role has the same fields here
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if role.Kind != "Role" && strings.Join(rule.Resources, ",") == "leases" {
				t.Errorf("%s %s grants %v on leases", role.Kind, role.Name, rule.Verbs)
			}
			for _, part := range append(append(rule.APIGroups, rule.Resources...), rule.Verbs...) {
				if part == rbacv1.VerbAll {
					t.Errorf("%s %s has a rule for everything: %+v", role.Kind, role.Name, rule)
				}
			}
		}
	}
}

// grants reads the bindings of a folder, by name and kind. Its kustomization puts what is namespaced into kube-system.
func grants(t *testing.T, folder string) map[string]grant {
	t.Helper()
	files, err := fs.Glob(FS, path.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]grant{}
	for _, file := range files {
		for _, document := range documents(t, file) {
			var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
			if err := yaml.Unmarshal(document, &binding); err != nil || !strings.HasSuffix(binding.Kind, "RoleBinding") {
				continue // not all files are objects, and not all objects are bindings
			}
			namespace := metav1.NamespaceSystem
			if binding.Kind == "ClusterRoleBinding" {
				namespace = ""
			}
			found[binding.Name+" ("+binding.Kind+")"] = grant{binding.RoleRef, namespace, binding.Subjects}
		}
	}
	return found
}
