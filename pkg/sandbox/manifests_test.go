package sandbox

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
)

// readerManifests give service account default/reader the right to list nodes, and no other.
var readerManifests = fstest.MapFS{
	"reader/kustomization.yaml": {Data: []byte("resources: [objects.yaml]\n")},
	"reader/objects.yaml": {Data: []byte(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
`)},
}

func TestAServiceAccountMayDoWhatItsManifestsSayAndNoMore(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAndCheck(t, s) })
	if err := s.ApplyManifests(t.Context(), readerManifests, "reader"); err != nil {
		t.Fatal(err)
	}
	path, err := s.ServiceAccountKubeconfig(t.Context(), "default", "reader")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing nodes: %v", err)
	}
	if _, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing pods: got error %v, want forbidden", err)
	}
	err = s.ApplyManifests(t.Context(), fstest.MapFS{}, "nothing")
	if err == nil || !strings.Contains(err.Error(), "applying manifests nothing") {
		t.Errorf("got error %v for a folder that is not there", err)
	}
}

func TestWithPathsChangesNothingElse(t *testing.T) {
	tests := map[string]struct {
		config string
		want   map[string]any
	}{
		"a connection keeps its limits": {
			config: "kind: K\nclientConnection: {qps: 500}\n",
			want:   map[string]any{"kind": "K", "clientConnection": map[string]any{"qps": 500.0, "kubeconfig": "/k"}},
		},
		"a configuration without one gets it": {
			config: "kind: K\n",
			want:   map[string]any{"kind": "K", "clientConnection": map[string]any{"kubeconfig": "/k"}},
		},
		"the mounted policy is elsewhere": {
			config: "profiles: [{pluginConfig: [{args: {policyFile: " + mountedPolicy + ", strategy: Pack}}]}]\n",
			want: map[string]any{
				"clientConnection": map[string]any{"kubeconfig": "/k"},
				"profiles": []any{map[string]any{"pluginConfig": []any{
					map[string]any{"args": map[string]any{"policyFile": "/p", "strategy": "Pack"}},
				}}},
			},
		},
		"a policy of the user's own stays": {
			config: "profiles: [{pluginConfig: [{args: {policyFile: /home/me/policy.yaml}}]}, wrong]\n",
			want: map[string]any{
				"clientConnection": map[string]any{"kubeconfig": "/k"},
				"profiles": []any{map[string]any{"pluginConfig": []any{
					map[string]any{"args": map[string]any{"policyFile": "/home/me/policy.yaml"}},
				}}, "wrong"},
			},
		},
		"what is wrong stays for the scheduler to refuse": {
			config: "knid: K\n",
			want:   map[string]any{"knid": "K", "clientConnection": map[string]any{"kubeconfig": "/k"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := withPaths([]byte(tc.config), schedulerPaths{kubeconfig: "/k", policy: "/p"})
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := yaml.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
	if !strings.Contains(string(mustRead(t, schedulerConfig)), "policyFile: "+mountedPolicy) {
		t.Errorf("%s does not look for the policy at %s", schedulerConfig, mountedPolicy)
	}
	if _, err := withPaths(nil, schedulerPaths{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(manifests.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
