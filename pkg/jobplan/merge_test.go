package jobplan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
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
	InheritMetadata(desired, merged)
	want := metav1.ObjectMeta{
		Labels:      map[string]string{"g8s.host/job": "sft", "g8s.host/priority": "high", "team": "a"},
		Annotations: map[string]string{names.AnnotationSubmitted: "the new YAML", names.AnnotationUser: "alice", "ticket": "17"},
	}
	if diff := cmp.Diff(want, desired.ObjectMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	InheritMetadata(&corev1.Pod{}, &metav1.ObjectMeta{}) // neither has any
}

// TestTheDeadlineOfPodsIsKeptInPlace where the Job ends them before it, since its template never changes.
func TestTheDeadlineOfPodsIsKeptInPlace(t *testing.T) {
	of := func(job, pods *int64) *batchv1.Job {
		out := &batchv1.Job{}
		out.Spec.ActiveDeadlineSeconds, out.Spec.Template.Spec.ActiveDeadlineSeconds = job, pods
		return out
	}
	s := ptr.To[int64]
	for name, tc := range map[string]struct {
		live, desired *batchv1.Job
		placed        bool
		want          *int64
	}{
		"made by a gpuctl of before":                  {of(s(60), nil), of(s(60), s(120)), false, nil},
		"it runs, and is given a limit":               {of(nil, nil), of(s(60), s(120)), true, nil},
		"it runs, and is given less time":             {of(s(600), s(660)), of(s(60), s(120)), true, s(660)},
		"it runs, and is given more, which they lack": {of(s(60), s(120)), of(s(600), s(660)), true, s(660)},
		"it runs, and may for as long as it likes":    {of(s(60), s(120)), of(nil, nil), true, nil},
		"it waits, and is given a limit":              {of(nil, nil), of(s(60), s(120)), false, s(120)},
		"it waits, and is given less time":            {of(s(600), s(660)), of(s(60), s(120)), false, s(120)},
		"tasks of an array":                           {of(nil, s(60)), of(nil, s(30)), false, s(30)},
	} {
		t.Run(name, func(t *testing.T) {
			wants := tc.desired.DeepCopy()
			got := InPlace(tc.desired, tc.live, tc.placed).(*batchv1.Job)
			if diff := cmp.Diff(tc.want, got.Spec.Template.Spec.ActiveDeadlineSeconds); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(wants, tc.desired); diff != "" {
				t.Errorf("what it would be made again as has changed:\n%s", diff)
			}
		})
	}
}
