package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestDescribeTerms(t *testing.T) {
	const head = "kind: training\njob: {name: a}\nenvironment: {image: busybox}\nresources: {gpu: 1, nodes: 2, topology: "
	note := func(idle string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationPreset: "small", names.AnnotationIdleTimeout: idle}}
	}
	asking := func(long string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationMinRuntime: long}}}
	}
	for name, tc := range map[string]struct {
		job  inventory.JobDetail
		want string
	}{
		"nothing": {inventory.JobDetail{}, ""},
		"a preset and a time to do nothing": {
			inventory.JobDetail{Meta: note("1h30m0s")}, "Preset:      small\nIdle timeout: 1h30m\n",
		},
		"a time that is none":         {inventory.JobDetail{Meta: note("long")}, "Preset:      small\n"},
		"one domain":                  {inventory.JobDetail{Submitted: head + "{level: rack, mode: required}}\n"}, "Topology:    one rack, required\n"},
		"one domain for a time":       {inventory.JobDetail{Submitted: head + "{level: rack, mode: preferred, wait: 10m}}\n"}, "Topology:    one rack, preferred, waited for 10m\n"},
		"one domain for some of them": {inventory.JobDetail{Submitted: head + "{level: nvlink, mode: required, segment: 1}}\n"}, "Topology:    one nvlink for each segment of 1, required\n"},
		"a time to run":               {inventory.JobDetail{Template: asking("2h0m0s")}, "Min runtime: 2h\n"},
		"a time that nobody knows":    {inventory.JobDetail{Template: asking("soon")}, ""},
		"time to save its work": {inventory.JobDetail{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{names.AnnotationCheckpointGrace: "5m0s"}}}}, "Checkpoint:  5m to save its work before it is preempted\n"},
		"YAML that is none": {inventory.JobDetail{Submitted: "{"}, ""},
	} {
		streams, out, _ := TestIOStreams("")
		describeTerms(newDescription(streams), &tc.job)
		if diff := cmp.Diff(tc.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDescribeSegments(t *testing.T) {
	segments := []inventory.Segment{{First: 0, Last: 15, Domains: []string{"7f3e"}}, {First: 16, Last: 31, Domains: []string{"7f3e", "91bb"}}, {First: 32, Last: 39}}
	for range maxSegments {
		segments = append(segments, inventory.Segment{First: 40, Last: 40})
	}
	streams, _, _ := TestIOStreams("")
	lines := segmentLines(newDescription(streams), segments)
	got := slices.Concat(lines[:3], lines[len(lines)-1:])
	want := []string{"ranks 0 to 15: 7f3e", "ranks 16 to 31: 7f3e, 91bb", "ranks 32 to 39: no place yet", "and 3 more: -o json has all"}
	if diff := cmp.Diff(want, got); diff != "" || len(lines) != maxSegments+1 {
		t.Errorf("%d lines (-want +got):\n%s", len(lines), diff)
	}
}

func TestAJobThatStartedWaitsForNothing(t *testing.T) {
	job := inventory.JobDetail{Job: inventory.Job{Name: "eval", DependsOn: []string{"prep", "train"}, WaitsFor: []string{"train"}}}
	for _, want := range []bool{true, false} {
		streams, out, _ := TestIOStreams("")
		describeJobState(newDescription(streams), job, now)
		if strings.Contains(out.String(), "Starts when: prep and train have succeeded") != want {
			t.Errorf("waiting for %v it says:\n%s", job.WaitsFor, out.String())
		}
		job.WaitsFor = nil
	}
}

func TestTaintsThatAreTolerated(t *testing.T) {
	tests := map[string]corev1.Toleration{
		"every taint":                   {Operator: corev1.TolerationOpExists},
		"dedicated=nlp:NoSchedule":      {Key: "dedicated", Value: "nlp", Effect: corev1.TaintEffectNoSchedule},
		"maintenance:NoExecute for 60s": {Key: "maintenance", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](60)},
	}
	for want, toleration := range tests {
		if got := tolerationText(&toleration).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
