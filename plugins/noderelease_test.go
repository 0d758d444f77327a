package plugins_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
	"g8s.host/gpu-scheduler/plugins"
)

// window keeps nodes from an hour on, for two hours.
func window(from time.Time, namespaces []string, nodes ...string) *names.GPUReservation {
	return &names.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: "window"}, Spec: names.GPUReservationSpec{
		Nodes: nodes, Namespaces: namespaces, From: metav1.NewTime(from), To: metav1.NewTime(from.Add(2 * time.Hour)),
	}}
}

func limited(pod *st.PodWrapper, limit time.Duration) *corev1.Pod {
	out := pod.Obj()
	out.Spec.ActiveDeadlineSeconds = ptr.To(int64(limit.Seconds()))
	return out
}

// TestNodesThatAreKept has the shipped configuration, with and without the short list of nodes, decide who may go to a node that a
// GPUReservation keeps.
func TestNodesThatAreKept(t *testing.T) {
	soon, running := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	tests := map[string]struct {
		kept *names.GPUReservation
		pod  *corev1.Pod
		want string // the node, or what is said
	}{
		"a pod that could run on when it begins": {window(soon, nil, "a"), pod("p", "1", "8").Obj(), "b"},
		"one that has ended by then":             {window(soon, nil, "a", "b"), limited(pod("p", "1", "8"), 30*time.Minute), "a"},
		"one that may be late":                   {window(soon, nil, "a", "b"), limited(pod("p", "1", "8"), 59*time.Minute), "2 node(s) are kept for others by a GPUReservation"},
		"one without GPUs":                       {window(soon, nil, "a", "b"), pod("p", "1", "").Obj(), "2 node(s) are kept for others by a GPUReservation"},
		"whom they are for, before":              {window(soon, []string{"default"}, "a", "b"), pod("p", "1", "8").Obj(), "a"},
		"whom they are for, then":                {window(running, []string{"default"}, "a", "b"), pod("p", "1", "8").Obj(), "a"},
		"another namespace than they are for":    {window(running, []string{"other"}, "a", "b"), limited(pod("p", "1", "8"), time.Second), "2 node(s) are kept for others by a GPUReservation"},
		"it is over":                             {window(time.Now().Add(-3*time.Hour), nil, "a", "b"), pod("p", "1", "8").Obj(), "a"},
		"a whole pool":                           {&names.GPUReservation{Spec: names.GPUReservationSpec{Pool: "default", From: metav1.NewTime(soon), To: metav1.NewTime(soon.Add(time.Hour))}}, pod("p", "1", "8").Obj(), "2 node(s) are kept"},
		"a node that has no room is not told so": {window(soon, nil, "a", "b"), pod("p", "1", "9").Obj(), "2 node(s) are kept"},
		"nodes that there are not":               {window(soon, nil, "x"), pod("p", "1", "8").Obj(), "a"},
	}
	for name, tc := range tests {
		for _, wrapped := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				c := newCluster(t, gpuNode("a", "pcie"), gpuNode("b", "pcie"))
				if wrapped {
					plugins.Wrap(c.scheduler, plugins.Options{})
				}
				must(t, follow.SeedInformer(c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory(), tc.kept))
				node, err := c.try(tc.pod)
				switch {
				case err != nil && !strings.Contains(err.Error(), tc.want):
					t.Errorf("it says %v, want %q", err, tc.want)
				case err == nil && node != tc.want && (wrapped || tc.want != "a"): // without, chance decides between equals
					t.Errorf("it goes to %s, want %s", node, tc.want)
				}
			})
		}
	}
}

// TestNobodyLeavesAKeptNode: whom it is kept from does not evict others there.
func TestNobodyLeavesAKeptNode(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	must(t, follow.SeedInformer(c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory(), window(time.Now().Add(time.Hour), nil, "a")))
	c.put(pod("low", "1", "8").Priority(-1), "a")
	if got := c.preempt(pod("p", "1", "8").Priority(1).Obj()); got != "" {
		t.Errorf("it is nominated for %q, want nothing", got)
	}
}
