package plugins_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

// promises are those of a cluster, and their changes.
type promises struct {
	*backfill.StartReservations
	changes chan backfill.Release
}

func (c *cluster) promises() promises {
	for _, plugin := range c.scheduler.Profiles[names.SchedulerName].EnqueueExtensions() {
		if filter, ok := plugin.(*gpufilter.Plugin); ok {
			p := promises{filter.StartReservations(), make(chan backfill.Release, 1)}
			p.OnRelease(func(change backfill.Release) { p.changes <- change })
			return p
		}
	}
	c.t.Fatal("the scheduler has no GPUFilter")
	return promises{}
}

// to is a promise of so many GPUs of each of some nodes, for a job that came two hours before that.
func (promises) to(job string, at time.Time, gpus int64, nodes ...*corev1.Node) *backfill.StartReservation {
	promise := &backfill.StartReservation{QueuePosition: backfill.QueuePosition{Job: job, Since: at.Add(-2 * time.Hour)}, At: at, Places: map[string]backfill.NodeReservation{}}
	for _, node := range nodes {
		promise.Places[node.Name] = backfill.NodeReservation{Needs: []cycle.ResourceRequest{{Resource: names.ResourceGPU, Amount: gpus}}}
	}
	return promise
}

// gang makes a PodGroup and its members, which find no room: the last of them has been tried for all.
func (c *cluster) gang(name string, members int, change func(*st.PodWrapper) *st.PodWrapper) (pods []*corev1.Pod) {
	c.t.Helper()
	group := &gangsv1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.Now()},
		Spec:       gangsv1.PodGroupSpec{MinMember: int32(members)}, //nolint:gosec // a few
	}
	if err := coscheduling.RegisterGroups(c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory(), []*gangsv1.PodGroup{group}); err != nil {
		c.t.Fatal(err)
	}
	for i := range members {
		member := pod(fmt.Sprintf("%s-%d", name, i), "1", "8").Label(names.LabelPodGroup, name).CreationTimestamp(metav1.Now())
		pods = append(pods, c.known(change(member), ""))
	}
	if _, err := c.try(pods[members-1]); err == nil {
		c.t.Fatalf("gang %s has room", name)
	}
	return pods
}

func (c *cluster) waiting() (pods []string) {
	for _, pod := range c.scheduler.SchedulingQueue.UnschedulablePods() {
		pods = append(pods, pod.Name)
	}
	slices.Sort(pods)
	return pods
}

// TestWhoIsTriedWhenAPromiseEnds or moves: whom it kept out and does no longer, and of a gang one for all.
func TestWhoIsTriedWhenAPromiseEnds(t *testing.T) {
	now := time.Now()
	const ends = time.Hour
	later := func(c *cluster, p promises, gpus int64, nodes []*corev1.Node) {
		p.ReserveStart(p.to("large", now.Add(ends+30*time.Minute), gpus, nodes...))
	}
	tests := map[string]struct {
		change func(c *cluster, p promises, gpus int64, nodes []*corev1.Node)
		gpus   int64
		wait   []string // the pods that are not tried
	}{
		"it ends": {
			change: func(_ *cluster, p promises, _ int64, _ []*corev1.Node) { p.EndReservation("large") }, gpus: 8,
			wait: []string{"a-0", "a-1", "before", "higher", "other-pool", "short"},
		},
		"it is for a later time, and takes whole nodes": {
			change: later, gpus: 8,
			wait: []string{"a-0", "a-1", "a-2", "after", "before", "higher", "other-pool", "part", "short"},
		},
		"it is for a later time, and others fit beside": {
			change: later, gpus: 4,
			wait: []string{"a-0", "a-1", "a-2", "after", "before", "higher", "other-pool", "short"},
		},
		"another job gets it": {
			change: func(_ *cluster, p promises, gpus int64, nodes []*corev1.Node) {
				p.ReserveStart(p.to("larger", now.Add(ends), gpus, nodes...))
			}, gpus: 8,
			wait: []string{"a-0", "a-1", "a-2", "after", "before", "higher", "longer", "other-pool", "part", "short"},
		},
	}
	for name, tc := range tests {
		for _, count := range []int{2, plugins.ManyNodes + 1} {
			t.Run(fmt.Sprintf("%s, %d nodes", name, count), func(t *testing.T) {
				nodes := rack(count, names.DefaultPool, "A100-80G")
				c := newCluster(t, gpuNode("small", "pcie"))
				since := func(pod *st.PodWrapper, minutes int) *st.PodWrapper {
					return pod.CreationTimestamp(metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute)))
				}
				pods := c.gang("a", 3, func(pod *st.PodWrapper) *st.PodWrapper { return pod })
				pods = append(pods,
					since(pod("after", "1", "8"), 1).Obj(), since(pod("before", "1", "8"), -100).Obj(), since(pod("part", "1", "4"), 1).Obj(),
					since(pod("higher", "1", "8"), 1).Priority(1).Obj(), since(pod("other-pool", "1", "8"), 1).Label(names.LabelPool, "other").Obj(),
					limited(since(pod("short", "1", "8"), 1), ends/2), limited(since(pod("longer", "1", "8"), 1), ends+10*time.Minute),
				)
				turnedAway(t, c, pods...)
				p := c.promises()
				p.ReserveStart(p.to("large", now.Add(ends), tc.gpus, nodes...))
				tc.change(c, p, tc.gpus, nodes)
				change := <-p.changes
				plugins.Tell(c.scheduler.SchedulingQueue, nodes, plugins.FirstOfGangs(c.scheduler), change.FreesRoomFor)
				if diff := cmp.Diff(tc.wait, c.waiting()); diff != "" {
					t.Errorf("who still waits (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestWhoComesFirstSparesWhatWasPromised to those behind it, where another node is worth as much. Whom a node is promised against goes to
// the next best of the others.
func TestWhoComesFirstSparesWhatWasPromised(t *testing.T) {
	now := time.Now()
	old := func(gpus string) *st.PodWrapper {
		return pod("p", "1", gpus).CreationTimestamp(metav1.NewTime(now.Add(-24 * time.Hour)))
	}
	a, b, nvlink := gpuNode("a", "pcie"), gpuNode("b", "pcie"), gpuNode("nvlink", "nvlink")
	tests := map[string]struct {
		promised []*corev1.Node
		gpus     int64
		pod      *corev1.Pod
		want     string
	}{
		"nothing is promised":               {pod: old("1").Obj(), want: "a"},
		"one of two that are worth as much": {promised: []*corev1.Node{a}, gpus: 8, pod: old("1").Obj(), want: "b"},
		"all that are worth most":           {promised: []*corev1.Node{a, b}, gpus: 8, pod: old("1").Obj(), want: "a"},
		"it has ended by then":              {promised: []*corev1.Node{a}, gpus: 8, pod: limited(old("1"), time.Minute), want: "a"},
		"there is room beside":              {promised: []*corev1.Node{a}, gpus: 4, pod: old("1").Obj(), want: "a"},
		"it stands behind":                  {promised: []*corev1.Node{a}, gpus: 8, pod: pod("p", "1", "1").CreationTimestamp(metav1.NewTime(now)).Obj(), want: "b"},
	}
	for name, tc := range tests {
		for _, wrapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, wrapped: %v", name, wrapped), func(t *testing.T) {
				c := newCluster(t, a, b, nvlink)
				if wrapped {
					plugins.Wrap(c.scheduler, plugins.Options{})
				}
				if tc.promised != nil {
					p := c.promises()
					p.ReserveStart(p.to("large", now.Add(time.Hour), tc.gpus, tc.promised...))
				}
				if got, err := c.try(tc.pod); err != nil || got != tc.want {
					t.Errorf("it goes to %q (%v), want %q", got, err, tc.want)
				}
			})
		}
	}
}

// TestWhatIsRankedForgetsPromises: what nodes are worth to a pod is remembered, and not what was promised of them then.
func TestWhatIsRankedForgetsPromises(t *testing.T) {
	now := time.Now()
	a := gpuNode("a", "pcie")
	c := newCluster(t, a, gpuNode("nvlink", "nvlink"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	p := c.promises()
	one := pod("p", "1", "1").CreationTimestamp(metav1.NewTime(now))
	p.ReserveStart(p.to("large", now.Add(time.Hour), 8, a))
	if got, err := c.try(one.Obj()); err != nil || got != "nvlink" {
		t.Fatalf("it goes to %q (%v), want the node that is not promised", got, err)
	}
	p.EndReservation("large")
	if got, err := c.try(one.Obj()); err != nil || got != "a" {
		t.Errorf("it goes to %q (%v) when nothing is promised any more, want the one that is worth most", got, err)
	}
}

// BenchmarkPromiseEnds ends a promise of 64 nodes while gangs of 64 wait for them, 5,000 pods: as it is done, and with all of them
// tried. What counts is also how many attempts follow.
func BenchmarkPromiseEnds(b *testing.B) {
	const size, gangs = 64, 78
	c := newCluster(b, gpuNode("small", "pcie"))
	var pods []*corev1.Pod
	for i := range gangs {
		pods = append(pods, c.gang(fmt.Sprint("g", i), size, func(pod *st.PodWrapper) *st.PodWrapper { return pod })...)
	}
	turnedAway(b, c, pods...)
	nodes, p := rack(size, names.DefaultPool, "A100-80G"), c.promises()
	p.ReserveStart(p.to("large", time.Now().Add(time.Hour), 8, nodes...))
	p.EndReservation("large")
	change := <-p.changes
	everybody := func(*corev1.Pod) func(*corev1.Node) bool { return func(*corev1.Node) bool { return true } }
	for name, tc := range map[string]struct {
		first func(*corev1.Pod) bool
		meant func(*corev1.Pod) func(*corev1.Node) bool
	}{
		"one of each gang": {plugins.FirstOfGangs(c.scheduler), change.FreesRoomFor},
		"all":              {anyPod, everybody},
	} {
		for _, count := range []int{1, plugins.ManyNodes, size} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, count), func(b *testing.B) {
				tried := 0
				for b.Loop() {
					plugins.Tell(c.scheduler.SchedulingQueue, nodes[:count], tc.first, tc.meant)
					b.StopTimer()
					tried = len(pods) - len(c.waiting())
					upstream.TurnAway(b, c.scheduler.SchedulingQueue, tried, gpufilter.Name)
					b.StartTimer()
				}
				b.ReportMetric(float64(tried), "tried/release")
			})
		}
	}
}
