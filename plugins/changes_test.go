package plugins

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"g8s.host/gpu-scheduler/pkg/cycle"
)

// TestNoChangeOfANodeGoesUnnoted does at random what a scheduler does to its cache, and compares each snapshot with the one
// before: a node of another generation must be among those that were noted.
func TestNoChangeOfANodeGoesUnnoted(t *testing.T) {
	const nodes = 20
	metrics.Register() // which a cache reports to
	logger, r := klog.Background(), rand.New(rand.NewPCG(1, 1))
	changes := &cycle.Changes{}
	c := &changingCache{Cache: cache.New(t.Context(), nil, false, false), changes: changes}
	snapshot := cache.NewEmptySnapshot()
	known, present := map[string]int64{}, map[string]*corev1.Node{}
	var pods, assumed []*corev1.Pod
	var mark cycle.Mark
	changes.ChangedSince(&mark, nodes)
	changed := 0
	for i := range 5000 {
		name := fmt.Sprint("n", r.IntN(nodes))
		pod := st.MakePod().Name(fmt.Sprint("p", i)).UID(fmt.Sprint("p", i)).Node(name).Obj()
		var err error
		switch r.IntN(8) {
		case 0:
			before, node := present[name], st.MakeNode().Name(name).Label("i", fmt.Sprint(i)).Obj()
			if before == nil {
				c.AddNode(logger, node)
			} else {
				c.UpdateNode(logger, before, node)
			}
			present[name] = node
		case 1:
			if node := present[name]; node != nil && r.IntN(4) == 0 {
				err = c.RemoveNode(logger, node)
				delete(present, name)
				delete(known, name)
			}
		case 2:
			err = c.AddPod(logger, pod)
			pods = append(pods, pod)
		case 3:
			if len(pods) > 0 {
				err = c.RemovePod(logger, pods[0])
				pods = pods[1:]
			}
		case 4:
			if len(pods) > 0 {
				changed := pods[0].DeepCopy()
				changed.Labels = map[string]string{"i": fmt.Sprint(i)}
				err = c.UpdatePod(logger, pods[0], changed)
				pods[0] = changed
			}
		case 5:
			err = c.AssumePod(logger, pod)
			assumed = append(assumed, pod)
		case 6:
			if len(assumed) > 0 {
				err = c.ForgetPod(logger, assumed[0])
				assumed = assumed[1:]
			}
		case 7: // bound, and not always where it was assumed to be
			if len(assumed) > 0 {
				bound := assumed[0].DeepCopy()
				if r.IntN(4) == 0 {
					bound.Spec.NodeName = name
				}
				err = c.AddPod(logger, bound)
				assumed, pods = assumed[1:], append(pods, bound)
			}
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if r.IntN(3) > 0 {
			continue
		}
		if err := c.UpdateSnapshot(logger, snapshot); err != nil {
			t.Fatal(err)
		}
		noted, ok := changes.ChangedSince(&mark, 1000)
		if !ok {
			t.Fatalf("step %d: it is not known what changed", i)
		}
		all, err := snapshot.NodeInfos().List()
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range all {
			name, generation := info.Node().Name, info.GetGeneration()
			if known[name] != generation {
				changed++
				if !slices.Contains(noted, name) {
					t.Fatalf("step %d: %s is another than before, and %v were noted", i, name, noted)
				}
			}
			known[name] = generation
		}
	}
	if changed < 1000 {
		t.Errorf("%d changes show little", changed)
	}
}
