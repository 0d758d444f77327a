package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhatIsWrittenOnAJobStays does all that can be done to a job, and looks whether it still says who submitted it, and
// what others have written on it: a job that is made again is the same job to whoever reads these.
func TestWhatIsWrittenOnAJobStays(t *testing.T) {
	cancelled := func(s *session) {
		s.expect(0, "", "", "cancel", "sft")
		s.finish("sft")
	}
	tests := map[string]struct {
		// before brings the job into the state that the command wants.
		before func(*session)
		stdin  string
		args   []string
		// again says that Kubernetes cannot do it in place.
		again bool
	}{
		"retry":          {before: cancelled, args: []string{"retry", "sft"}, again: true},
		"a second retry": {before: func(s *session) { cancelled(s); s.expect(0, "", "", "retry", "sft"); cancelled(s) }, args: []string{"retry", "sft"}, again: true},
		"a retry of a paused job that was cancelled": {before: func(s *session) { s.expect(0, "", "", "pause", "sft"); cancelled(s) }, args: []string{"retry", "sft"}, again: true},
		"set priority":           {args: []string{"set", "priority", "sft", "high"}, again: true},
		"set priority --restart": {args: []string{"set", "priority", "sft", "high", "--restart"}, again: true},
		"move":                   {args: []string{"move", "sft", "--pool", names.DefaultPool, "--restart"}, again: true},
		"apply":                  {stdin: strings.Replace(training("sft"), "name: sft", "name: sft\n  description: better", 1), args: []string{"apply", "-f", "-", "--replace"}, again: true},
		"apply in place":         {stdin: strings.Replace(training("sft"), "name: sft", "name: sft\n  ttl: 1h", 1), args: []string{"apply", "-f", "-"}},
		"pause":                  {args: []string{"pause", "sft"}},
		"resume":                 {before: func(s *session) { s.expect(0, "", "", "pause", "sft") }, args: []string{"resume", "sft"}},
		"cancel":                 {args: []string{"cancel", "sft"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			pool := "p-" + s.namespace
			s.node(s.namespace+"-1", map[string]string{names.LabelPool: pool})
			yaml := training("sft")
			if name == "move" {
				yaml = strings.Replace(yaml, "resources:\n", "resources:\n  pool: "+pool+"\n", 1)
			}
			s.expect(0, "", yaml, "create", "-f", "-")
			before := s.write("sft")
			if before.Annotations[names.AnnotationUser] == "" {
				t.Fatal("the job does not say who submitted it")
			}
			if tc.before != nil {
				tc.before(s)
			}
			s.expect(0, "", tc.stdin, tc.args...)
			after := s.job("sft")
			if (after.UID != before.UID) != tc.again && tc.before == nil {
				t.Errorf("the Job is a new one: %t, want %t", after.UID != before.UID, tc.again)
			}
			s.wantSame(before.ObjectMeta, after.ObjectMeta)
		})
	}
}

// write writes on a Job what others than gpuctl do.
func (s *session) write(name string) *batchv1.Job {
	s.Helper()
	job, err := client.BatchV1().Jobs(s.namespace).Patch(s.Context(), name, types.MergePatchType, notes, metav1.PatchOptions{FieldManager: "others"})
	if err != nil {
		s.Fatal(err)
	}
	return job
}

var notes = []byte(`{"metadata":{
	"labels":{"team.example.com/cost-centre":"4711","g8s.host/experiment":"a"},
	"annotations":{"team.example.com/ticket":"ML-17","g8s.host/no-migration":"true"}}}`)

// wantSame compares labels and annotations, but for those that say what was done to the job.
func (s *session) wantSame(before, after metav1.ObjectMeta) {
	s.Helper()
	state := []string{
		names.AnnotationSubmission, names.AnnotationSubmitted, names.AnnotationPausedAt, names.AnnotationCancelledAt,
		names.AnnotationReplicas, names.AnnotationDescription,
	}
	for key, value := range before.Annotations {
		if got := after.Annotations[key]; got != value && !slices.Contains(state, key) {
			s.Errorf("annotation %s is %q, want %q", key, got, value)
		}
	}
	for key, value := range before.Labels {
		if got := after.Labels[key]; got != value && key != names.LabelPriority && key != names.LabelPool {
			s.Errorf("label %s is %q, want %q", key, got, value)
		}
	}
}

// TestWhatIsWrittenOnAServiceStays is the same for a Deployment, which is never made again.
func TestWhatIsWrittenOnAServiceStays(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", inferenceYAML, "create", "-f", "-")
	read := func() *appsv1.Deployment {
		deployment, err := client.AppsV1().Deployments(s.namespace).Get(s.Context(), "inference-chat", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return deployment
	}
	if _, err := client.AppsV1().Deployments(s.namespace).Patch(s.Context(), "inference-chat", types.MergePatchType, notes, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	before := read().ObjectMeta
	before.Annotations = maps.Clone(before.Annotations)
	for _, args := range [][]string{
		{"pause", "chat"}, {"resume", "chat"}, {"cancel", "chat"}, {"retry", "chat"}, {"set", "priority", "chat", "high"},
	} {
		s.expect(0, "", "", args...)
		s.wantSame(before, read().ObjectMeta)
	}
}
