package recorder

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

// written is when the API server says that it wrote an object.
func written(seconds int) []metav1.ManagedFieldsEntry {
	at := metav1.NewTime(at(seconds))
	return []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &at}}
}

// TestAClockThatIsBehind takes nothing off what was held, nor off when a job ended: both are by the clock of Kubernetes.
func TestAClockThatIsBehind(t *testing.T) {
	tests := map[string]struct {
		ends, written, seen int
		want                int
	}{
		"no skew":                                {ends: 50, written: 51, seen: 51, want: 50},
		"ours is five seconds behind":            {ends: 50, written: 51, seen: 46, want: 50},
		"the node's is ahead":                    {ends: 500, written: 51, seen: 52, want: 52},
		"the node's is ahead, and ours behind":   {ends: 500, written: 51, seen: 46, want: 51},
		"somebody says that it was written then": {ends: 5000, written: 9000, seen: 52, want: 52},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			b.told(0, false, job("J"))
			b.told(1, false, pod("1"))
			b.told(tc.seen, false, pod("1", succeeded(tc.ends), func(p *corev1.Pod) { p.ManagedFields = written(tc.written) }))
			if got := b.sums()["ada"]; got != [3]float64{float64(tc.want), 0, 1} {
				t.Errorf("it held %v seconds, perhaps so many more, and pods; want %d", got, tc.want)
			}
			b.told(tc.seen, false, job("J", done(tc.ends), func(j *batchv1.Job) { j.ManagedFields = written(tc.written) }))
			known, _, err := b.Store.Job(store.Namespace{Name: "team"}, "J")
			b.check(err)
			if want := at(tc.want); known.Finished.Sub(want).Abs() > time.Second/2 {
				t.Errorf("the job finished at %s, want %s", known.Finished, want)
			}
		})
	}
}
