package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGetJobsFiltersAndFormats(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("a"), "create", "-f", "-")
	s.expect(0, "", strings.Replace(training("b"), "gpu: 1", "gpu: 4", 1)+"---\n"+notebook("c"), "create", "-f", "-")
	s.expect(0, "", "", "pause", "c")
	tests := map[string]struct {
		args []string
		want string
	}{
		"by kind":                   {[]string{"--kind", "notebook", "-o", "name"}, "notebook/c\n"},
		"by status, in any case":    {[]string{"--status", "suspended", "-o", "name"}, "notebook/c\n"},
		"by label":                  {[]string{"-l", "g8s.host/job-type=training", "-o", "name"}, "training/a\ntraining/b\n"},
		"by name":                   {[]string{"a", "c", "-o", "name"}, "training/a\nnotebook/c\n"},
		"mine":                      {[]string{"--mine", "-o", "name"}, "training/a\ntraining/b\nnotebook/c\n"},
		"someone else's":            {[]string{"--user", "nobody", "-o", "name"}, ""},
		"sorted by a number":        {[]string{"--sort-by", "gpus", "-o", "name", "--kind", "training"}, "training/a\ntraining/b\n"},
		"a path in the list":        {[]string{"-o", "jsonpath={.items[*].name}"}, "a b c\n"},
		"a path in one job":         {[]string{"b", "-o", "jsonpath=gpus"}, "4\n"},
		"columns of one's own":      {[]string{"-o", "custom-columns=N:.name,G:.gpus", "--kind", "training"}, "N  G\na  1\nb  4\n"},
		"such columns headless":     {[]string{"-o", "custom-columns=N:.name,X:.nothing", "--no-headers", "--kind", "notebook"}, "c  -\n"},
		"pods, of which none exist": {[]string{"--pods", "-o", "name"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := s.expect(0, "", "", append([]string{"get", "jobs"}, tc.args...)...); got.stdout != tc.want {
				t.Errorf("stdout is %q, want %q", got.stdout, tc.want)
			}
		})
	}
	s.runningPod(s.job("a"))
	if got := s.expect(0, "", "", "get", "jobs", "--pods", "--no-headers"); !strings.Contains(got.stdout, "somewhere") {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(3, "nothing", "", "get", "jobs", "nothing", "--pods")
	s.expect(2, "did you mean", "", "get", "jobs", "--status", "Pendin")
	s.expect(2, "no row has that field", "", "get", "jobs", "--sort-by", "nonsense")
	s.expect(2, "JSONPath", "", "get", "jobs", "-o", "jsonpath={.a")
	s.expect(2, "", "", "get", "jobs", "-l", "=,=")
}

func (s *session) event(kind string, object metav1.Object, reason string) {
	s.Helper()
	_, err := client.CoreV1().Events(s.namespace).Create(background, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{
			Kind: kind, Namespace: s.namespace, Name: object.GetName(), UID: object.GetUID(),
		},
		Reason: reason, Message: "it happened", Type: corev1.EventTypeNormal, LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func TestEventsAreThoseOfTheJobAndOfItsPods(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("sft")+"---\n"+training("other"), "create", "-f", "-")
	s.runningPod(s.job("sft"))
	pod, err := client.CoreV1().Pods(s.namespace).Get(background, "sft", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.event("Job", s.job("sft"), "SuccessfulCreate")
	s.event("Pod", pod, "FailedScheduling")
	s.event("Job", s.job("other"), "Elsewhere")
	got := s.expect(0, "", "", "events", "sft", "--no-headers")
	if !strings.Contains(got.stdout, "SuccessfulCreate") || !strings.Contains(got.stdout, "FailedScheduling") || strings.Contains(got.stdout, "Elsewhere") {
		t.Errorf("stdout is\n%s", got.stdout)
	}
	if got := s.expect(0, "", "", "events", "--no-headers"); strings.Count(got.stdout, "\n") != 3 {
		t.Errorf("stdout is\n%s", got.stdout)
	}
	s.expect(3, "nothing", "", "events", "nothing")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if got := s.gpuctlContext(ctx, "", "events", "sft", "-w"); got.code != 0 || !strings.Contains(got.stdout, "FailedScheduling") {
		t.Errorf("a watch that the user ends has exit code %d, stdout\n%s", got.code, got.stdout)
	}
}
