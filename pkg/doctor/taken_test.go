package doctor

import (
	"errors"
	"io"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/manifests"
)

// caseStudy are objects of document 001, as far as they have names of ours.
const caseStudy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpu-scheduler, namespace: kube-system}
spec: {replicas: 1, selector: {matchLabels: {app: gpu-scheduler}}}
---
apiVersion: v1
kind: Service
metadata: {name: gpu-scheduler-metrics, namespace: kube-system, labels: {app: gpu-scheduler}}
spec: {selector: {app: gpu-scheduler}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gpu-resource-manager}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch, create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gpu-resource-reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: gpu-limits, namespace: ml-team}
spec: {limits: [{type: Container, default: {nvidia.com/gpu: "1"}, max: {nvidia.com/gpu: "2"}}]}
`

// decoded reads the objects of YAML that have a name of ours, in their namespaces.
func decoded(t *testing.T, text string) []runtime.Object {
	t.Helper()
	var out []runtime.Object
	reader := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw map[string]any
		if err := reader.Decode(&raw); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		var object interface {
			runtime.Object
			metav1.Object
		}
		switch raw["kind"] {
		case "Deployment":
			object = &appsv1.Deployment{}
		case "DaemonSet":
			object = &appsv1.DaemonSet{}
		case "StatefulSet":
			object = &appsv1.StatefulSet{}
		case "Service":
			object = &corev1.Service{}
		case "ClusterRole":
			object = &rbacv1.ClusterRole{}
		case "LimitRange":
			object = &corev1.LimitRange{}
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, object); err != nil {
			t.Fatal(err)
		}
		if raw["kind"] != "ClusterRole" && object.GetNamespace() == "" {
			object.SetNamespace("kube-system") // as the kustomizations say
		}
		out = append(out, object)
	}
}

// TestNamesThatOthersHave: those of the case study, whether they were there first or were applied over ours, and none of ours.
func TestNamesThatOthersHave(t *testing.T) {
	var ours string
	for _, file := range []string{
		"scheduler/deployment.yaml", "scheduler/service.yaml", "controller/deployment.yaml", "agent/daemonset.yaml", "ledger/statefulset.yaml",
		"monitoring/services.yaml", "tenancy/roles.yaml", "tenancy/quota.yaml",
	} {
		data, err := manifests.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ours += "---\n" + string(data) + "\n"
	}
	over := decoded(t, ours)
	for _, object := range over { // as kubectl apply merges the case study's into ours: maps have both, lists are theirs
		switch o := object.(type) {
		case *corev1.Service:
			if o.Name == "gpu-scheduler-metrics" {
				o.Spec.Selector["app"] = "gpu-scheduler"
			}
		case *rbacv1.ClusterRole:
			o.Rules = o.Rules[:1]
		}
	}
	tests := map[string]struct {
		objects []runtime.Object
		want    NameConflicts
		status  Status
	}{
		"nothing is there": {status: OK},
		"ours":             {objects: decoded(t, ours), status: OK},
		"the case study was first": {objects: decoded(t, caseStudy), status: Failed, want: NameConflicts{
			Objects: []string{"deployment gpu-scheduler", "service gpu-scheduler-metrics"},
			Roles:   []string{"gpu-resource-manager", "gpu-resource-reader"}, Defaults: []string{"ml-team/gpu-limits"},
		}},
		"the case study was applied over ours": {objects: over, status: Failed, want: NameConflicts{
			Objects: []string{"service gpu-scheduler-metrics"}, Roles: []string{"gpu-resource-manager", "gpu-resource-reader"},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var f Installation
			var unread []string
			if err := f.readNameConflicts(t.Context(), fake.NewClientset(tc.objects...), &unread); err != nil || unread != nil {
				t.Fatal(err, unread)
			}
			if diff := cmp.Diff(tc.want, f.NameConflicts); diff != "" {
				t.Errorf("what others have (-want +got):\n%s", diff)
			}
			if check := f.checkNames(); check.Status != tc.status {
				t.Errorf("the check says %s: %s; want %s", check.Status, check.Text, tc.status)
			}
		})
	}
}
