package recovery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestSignsOfLife(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	signs := &Signs{Clock: clock}
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	silence := func(node string, want time.Duration) {
		t.Helper()
		if got, _ := signs.SilentFor(node); got != want {
			t.Errorf("%s is silent for %s, want %s", node, got, want)
		}
	}
	signs.RecordLease("a", "1")
	signs.RecordLease("b", "1")
	silence("c", 0) // it has no lease
	pass(10 * time.Second)
	signs.RecordLease("a", "2")
	signs.RecordLease("b", "1") // the same once more is no sign
	silence("a", 0)
	silence("b", 10*time.Second)
	pass(15 * time.Second)
	silence("b", 25*time.Second)
	pass(15 * time.Second)
	silence("b", 0) // nobody has been heard for 30 s: it is not b's fault
	signs.RecordLease("a", "3")
	silence("b", 0) // and it may have been heard in that time, by others
	pass(10 * time.Second)
	silence("b", 10*time.Second)
	signs.forgetNode("b")
	silence("b", 0)
}

func TestBereft(t *testing.T) {
	member := func(node string, change ...func(*corev1.Pod)) *corev1.Pod {
		out := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		for _, c := range change {
			c(out)
		}
		return out
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
	stays := func(p *corev1.Pod) { p.Annotations = map[string]string{g8s.AnnotationNoMigration: g8s.True} }
	tests := map[string]struct {
		members []*corev1.Pod
		dead    []string
		min     int
		want    []string
	}{
		"a gang that needs all":                     {members: []*corev1.Pod{member("a"), member("b"), member("c")}, dead: []string{"a"}, min: 3, want: []string{"b", "c"}},
		"one that can do with fewer":                {members: []*corev1.Pod{member("a"), member("b"), member("c")}, dead: []string{"a"}, min: 2},
		"two lost at once":                          {members: []*corev1.Pod{member("a"), member("b"), member("c")}, dead: []string{"a", "b"}, min: 2, want: []string{"c"}},
		"a member that ends is lost, too":           {members: []*corev1.Pod{member("a"), member("b", ending), member("c")}, dead: []string{"a"}, min: 2, want: []string{"c"}},
		"one that has ended is not evicted":         {members: []*corev1.Pod{member("a"), member("b", ended), member("c")}, dead: []string{"a"}, min: 3, want: []string{"c"}},
		"one that is done counts":                   {members: []*corev1.Pod{member("a"), member("b", ended), member("c")}, dead: []string{"a"}, min: 2},
		"one that waits for its place neither":      {members: []*corev1.Pod{member("a"), member("")}, dead: []string{"a"}, min: 2},
		"one that is not to be moved stays":         {members: []*corev1.Pod{member("a"), member("b", stays), member("c")}, dead: []string{"a"}, min: 3, want: []string{"c"}},
		"a gang that has lost nobody is left alone": {members: []*corev1.Pod{member("b"), member("c")}, dead: []string{"a"}, min: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, pod := range StrandedMembers(tc.members, tc.dead, tc.min) {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
		})
	}
}
