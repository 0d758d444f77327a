package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEdits(t *testing.T) {
	tests := map[string]struct {
		component component
		object    string
		want      string
	}{
		"nothing may be set of a role, and braces are text": {
			component{name: "server"},
			"kind: Role\nmetadata:\n  name: x{{y}}\n",
			"---\nkind: Role\nmetadata:\n  name: x{{ \"{{\" }}y}}\n",
		},
		"a CRD stays": {
			component{name: "crds"},
			"kind: CustomResourceDefinition\nmetadata:\n  name: x\n",
			"---\nkind: CustomResourceDefinition\nmetadata:\n  name: x\n  annotations:\n    helm.sh/resource-policy: keep\n",
		},
		"the lists of the policies stay, and keep their annotations": {
			component{name: "policies"},
			"kind: ConfigMap\nmetadata:\n  name: gpuctl-policy\n  annotations:\n    a: b\n",
			"---\nkind: ConfigMap\nmetadata:\n  name: gpuctl-policy\n  annotations:\n    a: b\n    helm.sh/resource-policy: keep\n",
		},
		"the server's namespace is the user's, also of those who are named": {
			component{name: "server"},
			"kind: ClusterRoleBinding\nmetadata:\n  name: x\nsubjects:\n  - name: x\n    namespace: gpuctl-server\n  - name: y\n    namespace: other\n",
			"---\nkind: ClusterRoleBinding\nmetadata:\n  name: x\nsubjects:\n  - name: x\n    namespace: {{ .Values.server.namespace }}\n" +
				"  - name: y\n    namespace: other\n",
		},
		"the namespace of Secrets of clouds stays": {
			component{name: "spot"},
			"kind: Namespace\nmetadata:\n  name: g8s-spot\n",
			"---\nkind: Namespace\nmetadata:\n  name: g8s-spot\n  annotations:\n    helm.sh/resource-policy: keep\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := splitDocuments([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tc.component.objectText(objects[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("template (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPlaceThatIsLostIsAnError: a value that a user sets would be set nowhere.
func TestAPlaceThatIsLostIsAnError(t *testing.T) {
	e := &edits{}
	marker := e.valuePlace(".Values.x").Value
	if _, err := e.fillPlaces("a: b\n"); err == nil || !strings.Contains(err.Error(), "0 of 1 places") {
		t.Errorf("got error %v", err)
	}
	if got, err := e.fillPlaces("a: " + marker + "\n"); err != nil || got != "a: {{ .Values.x }}\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := e.fillPlaces("a: __place_7__\n"); err == nil {
		t.Error("a place that nobody made was filled")
	}
}

// TestEveryObjectIsInOneComponent of those that share the scheduler's folder.
func TestEveryObjectIsInOneComponent(t *testing.T) {
	folders := map[string]string{
		"scheduler": "kind: A\nmetadata: {name: crd}\n---\nkind: B\nmetadata: {name: policy, namespace: kube-system}\n---\nkind: C\nmetadata: {name: own}\n",
		"crds":      "kind: A\nmetadata: {name: crd}\n",
		"policy":    "kind: B\nmetadata: {name: policy}\n",
	}
	templates, err := renderTemplates(func(folder string) ([]byte, error) { return []byte(folders[folder]), nil })
	if err != nil {
		t.Fatal(err)
	}
	for template, want := range map[string]string{"crds": "crd", "policies": "policy", "scheduler": "own"} {
		for _, name := range []string{"crd", "policy", "own"} {
			if has := strings.Contains(templates[template], "name: "+name); has != (name == want) {
				t.Errorf("%s has %s: %v", template, name, has)
			}
		}
	}
}
