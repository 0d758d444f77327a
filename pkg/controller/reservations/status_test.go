package reservations

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

// kept keeps nodes from everybody but namespace owner.
func kept(from, to float64, evict bool) *g8s.GPUReservation {
	return &g8s.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: "r", Generation: 3}, Spec: g8s.GPUReservationSpec{
		Pool: "train", From: metav1.NewTime(at(from)), To: metav1.NewTime(at(to)), Namespaces: []string{"owner"}, Evict: evict,
	}}
}

func pod(namespace, name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	out := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Controller: ptr.To(true)}}}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range change {
		c(&out)
	}
	return out
}

func limit(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = ptr.To(int64(d.Seconds())), ptr.To(metav1.NewTime(noon))
	}
}

func TestStatusOf(t *testing.T) {
	pods := []corev1.Pod{pod("lab", "for-ever", "a"), pod("lab", "short", "a", limit(time.Hour)), pod("lab", "long", "b", limit(5*time.Hour)), pod("owner", "theirs", "b")}
	tests := map[string]struct {
		of   *g8s.GPUReservation
		want g8s.GPUReservationStatus
	}{
		"ahead":     {kept(2, 4, false), g8s.GPUReservationStatus{ObservedGeneration: 3, Phase: g8s.ReservationUpcoming, InTheWay: 2, NodesInTheWay: 2}},
		"it begins": {kept(0, 4, false), g8s.GPUReservationStatus{ObservedGeneration: 3, Phase: g8s.ReservationActive, InTheWay: 3, NodesInTheWay: 2}},
		"over":      {kept(-2, 0, false), g8s.GPUReservationStatus{ObservedGeneration: 3, Phase: g8s.ReservationOver}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, inTheWay := StatusOf(tc.of, pods, noon)
			if diff := cmp.Diff(tc.want, got); diff != "" || len(inTheWay) != int(got.InTheWay) {
				t.Errorf("%d pods in the way; status (-want +got):\n%s", len(inTheWay), diff)
			}
		})
	}
}

// TestItIsToldOnce that somebody is still there, also where nobody looked at the moment itself.
func TestItIsToldOnce(t *testing.T) {
	ahead, empty := g8s.GPUReservationStatus{Phase: g8s.ReservationUpcoming}, g8s.GPUReservationStatus{Phase: g8s.ReservationActive}
	there := g8s.GPUReservationStatus{Phase: g8s.ReservationActive, InTheWay: 1}
	for name, tc := range map[string]struct {
		before, after g8s.GPUReservationStatus
		want          bool
	}{
		"somebody is there": {ahead, there, true}, "nobody is": {ahead, empty, false}, "it has begun before": {there, there, false},
		"it was made meanwhile": {g8s.GPUReservationStatus{}, there, true}, "it lies ahead": {ahead, ahead, false},
	} {
		if got := StartsBlocked(tc.before, tc.after); got != tc.want {
			t.Errorf("%s: told %v, want %v", name, got, tc.want)
		}
	}
}

func TestNextLook(t *testing.T) {
	for name, tc := range map[string]struct {
		of   *g8s.GPUReservation
		pods []corev1.Pod
		want time.Duration
	}{
		"a day ahead":                   {kept(24, 25, false), nil, recountLater},
		"the hour before is not missed": {kept(1.1, 2, false), nil, 6 * time.Minute},
		"an hour ahead":                 {kept(0.9, 2, false), nil, recountSoon},
		"nor is its beginning":          {kept(1.0/360, 2, false), nil, 10 * time.Second},
		"while it lasts":                {kept(0, 2, false), []corev1.Pod{pod("lab", "p", "a")}, recountSoon},
		"while it evicts":               {kept(0, 2, true), []corev1.Pod{pod("lab", "p", "a")}, evictInterval},
		"when all have left":            {kept(0, 2, true), nil, recountSoon},
		"when it is over":               {kept(-2, 0, true), nil, 0},
	} {
		status, _ := StatusOf(tc.of, tc.pods, noon)
		if got := NextCheck(tc.of, status, noon).Round(time.Second); got != tc.want {
			t.Errorf("%s: again after %s, want %s", name, got, tc.want)
		}
	}
}

func TestToEvict(t *testing.T) {
	pods := []corev1.Pod{
		pod("lab", "job", "a"), pod("owner", "theirs", "a"),
		pod("lab", "leaving", "a", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }),
		pod("lab", "no-migration", "a", func(p *corev1.Pod) { p.Annotations = map[string]string{g8s.AnnotationNoMigration: g8s.True} }),
		pod("lab", "bare", "a", func(p *corev1.Pod) { p.OwnerReferences = nil }),
	}
	for name, tc := range map[string]struct {
		of   *g8s.GPUReservation
		want []string
	}{
		"it evicts": {kept(0, 2, true), []string{"job"}}, "it lies ahead": {kept(1, 2, true), nil},
		"it is over": {kept(-2, 0, true), nil}, "it does not say so": {kept(0, 2, false), nil},
	} {
		status, inTheWay := StatusOf(tc.of, pods, noon)
		var got []string
		for _, pod := range ToEvict(tc.of, status, inTheWay) {
			got = append(got, pod.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
