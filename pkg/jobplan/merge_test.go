package jobplan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const liveService = `apiVersion: v1
kind: Service
metadata:
  name: svc
  uid: u
  resourceVersion: "7"
  labels: {a: "1", b: "2", foreign: "3"}
spec:
  clusterIP: 10.0.0.1
  ports: [{port: 80, protocol: TCP, targetPort: 80}]
status: {loadBalancer: {}}
`

func service(labels map[string]string, port int32) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: "svc", Labels: labels},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(port)}}},
	}
}

func TestMerge(t *testing.T) {
	both := map[string]string{"a": "1", "b": "2"}
	tests := map[string]struct {
		last, desired client.Object
		// want is the diff, "" if nothing changes.
		want string
	}{
		"defaults of the API server and labels of others are no difference": {service(both, 80), service(both, 80), ""},
		"a label that is not applied any more goes": {
			service(both, 80), service(map[string]string{"a": "1"}, 80),
			"--- live/Service/svc\n+++ applied/Service/svc\n@@ -3,7 +3,6 @@\n metadata:\n   labels:\n     a: \"1\"\n-    b: \"2\"\n" +
				"     foreign: \"3\"\n   name: svc\n spec:\n",
		},
		"nothing goes when it is not known what was applied": {nil, service(map[string]string{"a": "1"}, 80), ""},
		"a label that differs changes": {
			service(both, 80), service(map[string]string{"a": "9", "b": "2"}, 80),
			"--- live/Service/svc\n+++ applied/Service/svc\n@@ -2,7 +2,7 @@\n kind: Service\n metadata:\n   labels:\n-    a: \"1\"\n" +
				"+    a: \"9\"\n     b: \"2\"\n     foreign: \"3\"\n   name: svc\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{}
			body, err := yaml.YAMLToJSON([]byte(liveService))
			if err != nil {
				t.Fatal(err)
			}
			if err := live.UnmarshalJSON(body); err != nil {
				t.Fatal(err)
			}
			after, changed, err := Merge(live, tc.last, tc.desired)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Diff(live, after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != (tc.want != "") {
				t.Errorf("changed is %t, diff (-want +got):\n%s", changed, diff)
			}
		})
	}
}

func TestInherit(t *testing.T) {
	merged := &metav1.ObjectMeta{
		Labels: map[string]string{"g8s.host/job": "sft", "team": "a"},
		Annotations: map[string]string{
			names.AnnotationSubmitted: "the old YAML", names.AnnotationCancelledAt: "then", names.AnnotationSubmission: "the old one",
			names.AnnotationUser: "eve", "ticket": "17",
		},
	}
	desired := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"g8s.host/job": "sft", "g8s.host/priority": "high"},
		Annotations: map[string]string{names.AnnotationSubmitted: "the new YAML", names.AnnotationUser: "alice"},
	}}
	Inherit(desired, merged)
	want := metav1.ObjectMeta{
		Labels:      map[string]string{"g8s.host/job": "sft", "g8s.host/priority": "high", "team": "a"},
		Annotations: map[string]string{names.AnnotationSubmitted: "the new YAML", names.AnnotationUser: "alice", "ticket": "17"},
	}
	if diff := cmp.Diff(want, desired.ObjectMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	Inherit(&corev1.Pod{}, &metav1.ObjectMeta{}) // neither has any
}
