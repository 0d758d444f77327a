package cli

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// foreignJob is a job that gpuctl lists, by its labels, and has not made.
func (s *session) foreignJob(name string) {
	s.Helper()
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand-" + name, Labels: map[string]string{names.LabelJob: name, names.LabelJobType: "training"}},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}},
	}
	if _, err := client.BatchV1().Jobs(s.namespace).Create(s.Context(), job, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// TestAJobThatGpuctlHasNotMade is listed, and no command says that it is not there.
func TestAJobThatGpuctlHasNotMade(t *testing.T) {
	s := newSession(t)
	s.foreignJob("s6a")
	if got := s.expect(0, "", "", "get", "jobs"); !strings.Contains(got.stdout, "s6a") {
		t.Fatalf("the job is not listed:\n%s", got.stdout)
	}
	for _, command := range [][]string{
		{"delete", "s6a"}, {"delete", "training/s6a"}, {"delete", "s6a", "--ignore-not-found"}, {"pause", "s6a"}, {"resume", "s6a"},
		{"cancel", "s6a"}, {"retry", "s6a"}, {"move", "s6a", "--pool", "default"}, {"set", "priority", "s6a", "high"}, {"export", "s6a"},
	} {
		got := s.expect(4, `job "s6a" in namespace `+s.namespace+` was not made by gpuctl`, "", command...)
		if strings.Contains(got.stderr, "Did you mean") || !strings.Contains(got.stderr, "delete job by-hand-s6a") {
			t.Errorf("%v says\n%s", command, got.stderr)
		}
	}
	s.expect(0, "", training("s6a"), "create", "-f", "-") // its Job has another name
}

// TestWhatIsNotThereIsElsewhere names where a job is that is not here.
func TestWhatIsNotThereIsElsewhere(t *testing.T) {
	here, there := newSession(t), newSession(t)
	there.expect(0, "", training("wandering"), "create", "-f", "-")
	for _, command := range [][]string{{"delete", "wandering"}, {"describe", "job", "wandering"}, {"why", "wandering"}, {"pause", "wandering"}} {
		here.expect(3, "There is one in namespace "+there.namespace+": add -n "+there.namespace, "", command...)
	}
	there.expect(3, `notebook job "wandering" not found in namespace `+there.namespace+`: the job of that name is training/wandering`, "",
		"delete", "notebook/wandering")
	got := there.expect(3, "Did you mean wandering?", "", "delete", "wanderin")
	if strings.Contains(got.stderr, "There is one") {
		t.Errorf("it says both\n%s", got.stderr)
	}
}
