package oracle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// ofJob makes a pod that of a Job's member, and of the gang that is called as the Job.
func ofJob(job, index string, pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: job, UID: types.UID(job), Controller: ptr.To(true)}}
		p.Labels[names.LabelPodGroup] = job
		p.Annotations[batchv1.JobCompletionIndexAnnotation] = index
	})
}

func leaving(pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
}

func TestDoubledFindsMembersOfWhichThereAreTwo(t *testing.T) {
	a := func() *corev1.Pod { return ofJob("j", "0", wholePod("a", 0)) }
	b := func() *corev1.Pod { return ofJob("j", "0", wholePod("b", 1)) }
	twice := []Violation{{Revision: 12, Rule: Twice, Node: "whole", Pods: []string{"ns/a", "ns/b"}}}
	tests := map[string]struct {
		history History
		want    []Violation
	}{
		"two pods of one member":                    {history: after(a(), b()), want: twice},
		"it is told once":                           {history: after(a(), b(), b()), want: twice},
		"the second has no node yet":                {history: after(a(), pending(b()))},
		"the first is told to leave":                {history: after(leaving(a()), b())},
		"the first has failed":                      {history: after(with(a(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), b())},
		"the first has succeeded":                   {history: after(ended(a()), b()), want: twice},
		"two members":                               {history: after(a(), ofJob("j", "1", wholePod("b", 1)))},
		"two jobs":                                  {history: after(a(), ofJob("k", "0", wholePod("b", 1)))},
		"pods of no job":                            {history: after(wholePod("a", 0), wholePod("b", 1))},
		"the first is gone, and was not seen to go": {history: append(after(a()), Event{Revision: 12, Type: watch.Deleted, Pod: a()}, Event{Revision: 13, Type: watch.Modified, Pod: b()})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Doubled(tc.history)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTearsAreTheTimesInWhichAGangIsHalf(t *testing.T) {
	a := func() *corev1.Pod { return ofJob("g", "0", wholePod("a", 0)) }
	b := func() *corev1.Pod { return ofJob("g", "1", wholePod("b", 1)) }
	c := func() *corev1.Pod { return ofJob("g", "1", wholePod("c", 2)) } // in the place of b
	last := func(h History) History { return append(h, Event{Revision: 20, Type: watch.Modified, Node: h[0].Node}) }
	tests := map[string]struct {
		history History
		want    []Tear
	}{
		"bound one after the other": {history: after(a(), b()), want: []Tear{{Gang: "ns/g", From: 11, To: 12, Lasted: time.Second}}},
		"a member waits to the end": {history: last(after(a(), pending(b()))), want: []Tear{{Gang: "ns/g", From: 11, To: 20, Lasted: 9 * time.Second}}},
		"nobody has a place":        {history: last(after(pending(a()), pending(b())))},
		"a member is replaced": {
			history: after(a(), b(), leaving(b()), pending(c()), c()),
			want: []Tear{
				{Gang: "ns/g", From: 13, To: 15, Lasted: 2 * time.Second}, {Gang: "ns/g", From: 11, To: 12, Lasted: time.Second},
			},
		},
		"a member has succeeded, and the other goes on": {
			history: last(after(a(), b(), ended(b()))), want: []Tear{{Gang: "ns/g", From: 11, To: 12, Lasted: time.Second}},
		},
		"all leave": {
			history: last(after(a(), b(), leaving(a()), leaving(b()))),
			want:    []Tear{{Gang: "ns/g", From: 11, To: 12, Lasted: time.Second}, {Gang: "ns/g", From: 13, To: 14, Lasted: time.Second}},
		},
		"another gang": {history: after(ofJob("other", "0", wholePod("a", 0)))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for i := range tc.history { // a revision is a second
				tc.history[i].Seen = time.Unix(tc.history[i].Revision, 0)
			}
			if diff := cmp.Diff(tc.want, Tears(tc.history, map[string]int{"ns/g": 2})); diff != "" {
				t.Errorf("tears (-want +got):\n%s", diff)
			}
		})
	}
}
