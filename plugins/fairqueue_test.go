package plugins_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

// loop is the scheduling loop on the real queue of kube-scheduler, in a time of its own: an attempt takes as long as its pod's namespace says.
type loop struct {
	*cluster
	take upstream.Next
	now  time.Time
	// tick is how long it takes to ask for the time: a look at the queue takes no less.
	tick  time.Duration
	costs map[string]time.Duration
	// during is called while an attempt runs.
	during func(*corev1.Pod)
}

func newLoop(t *testing.T, costs map[string]time.Duration) *loop {
	t.Helper()
	l := &loop{cluster: newCluster(t, gpuNode("a", "pcie")), costs: costs, now: time.Now()}
	l.take = plugins.TakeTurns(l.scheduler, func() time.Time { l.now = l.now.Add(l.tick); return l.now })
	return l
}

// comes has a pod wait in the queue, named NAMESPACE/NAME.
func (l *loop) comes(name string, change ...func(*st.PodWrapper)) *corev1.Pod {
	l.t.Helper()
	namespace, short, _ := strings.Cut(name, "/")
	wrapped := pod(short, "1", "1").Namespace(namespace)
	wrapped.Obj().UID = types.UID(name)
	for _, change := range change {
		change(wrapped)
	}
	added := l.known(wrapped, "")
	upstream.Add(l.scheduler.SchedulingQueue, added)
	return added
}

// tries takes the next pod, which finds no place, and returns its name.
func (l *loop) tries() string {
	l.t.Helper()
	taken := upstream.Take(l.t, l.take)
	pod := taken.Pod()
	l.now = l.now.Add(l.costs[pod.Namespace])
	if l.during != nil {
		l.during(pod)
	}
	upstream.PutBack(l.t, l.scheduler.SchedulingQueue, taken, gpufilter.Name)
	return pod.Namespace + "/" + pod.Name
}

// TestARefusedPodIsNominatedToNoNode: neither to the one that it was nominated to before nor to "", whose pods the queue would go through each
// time that one of them is refused.
func TestARefusedPodIsNominatedToNoNode(t *testing.T) {
	l := newLoop(t, nil)
	l.comes("ns/x")
	info := upstream.Take(t, l.take).Info()
	queue := l.scheduler.SchedulingQueue
	nominate := func(node string) {
		queue.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	}
	if nominate("a"); len(queue.NominatedPodsForNode("a")) != 1 {
		t.Fatal("it is not nominated to a")
	}
	queue.AddNominatedPod(klog.Background(), info, nil)
	nominate("a")
	nominate("")
	for _, node := range []string{"a", ""} {
		if nominated := queue.NominatedPodsForNode(node); len(nominated) > 0 {
			t.Errorf("%d pods are nominated to node %q", len(nominated), node)
		}
	}
}

// TestNamespacesTakeTurns: who has used less of the loop's time goes first of those of equal priority, and pods of one namespace go in their order.
func TestNamespacesTakeTurns(t *testing.T) {
	const ms = time.Millisecond
	high := func(p *st.PodWrapper) { p.Priority(1) }
	costs := map[string]time.Duration{"dear": 40 * ms, "cheap": ms, "between": 20 * ms, "light": 10 * ms, "heavy": 30 * ms}
	for name, tc := range map[string]struct {
		come func(*loop)
		want []string
	}{
		"one namespace": {func(l *loop) { l.comes("dear/b"); l.comes("dear/a"); l.comes("dear/c") }, []string{"dear/b", "dear/a", "dear/c"}},
		"attempts that cost next to nothing": {func(l *loop) {
			for _, name := range []string{"cheap/a", "none/b", "cheap/c", "none/d"} {
				l.comes(name)
			}
		}, []string{"cheap/a", "none/b", "cheap/c", "none/d"}},
		"one that came late": {func(l *loop) {
			for _, name := range []string{"dear/c", "dear/b", "dear/a", "cheap/x"} {
				l.comes(name)
			}
		}, []string{"dear/c", "cheap/x", "dear/b", "dear/a"}},
		"each pays for its own": {func(l *loop) {
			for _, name := range []string{"dear/1", "dear/2", "between/1", "between/2", "between/3", "between/4"} {
				l.comes(name)
			}
		}, []string{"dear/1", "between/1", "between/2", "dear/2", "between/3", "between/4"}},
		"who comes while another is tried": {func(l *loop) {
			l.comes("dear/1")
			l.comes("dear/2")
			l.during = func(*corev1.Pod) { l.during = nil; l.comes("cheap/x"); l.comes("cheap/y") }
		}, []string{"dear/1", "cheap/x", "cheap/y", "dear/2"}},
		"who comes, after a look that took long": {func(l *loop) {
			l.tick = 10 * ms
			l.comes("dear/1")
			l.comes("dear/2")
			l.during = func(*corev1.Pod) { l.during = nil; l.comes("cheap/x") }
		}, []string{"dear/1", "cheap/x", "dear/2"}},
		"who is tried again, after a look that took long": {func(l *loop) {
			l.tick = 10 * ms
			l.comes("dear/1")
			l.comes("cheap/x")
			l.comes("dear/2")
			l.comes("dear/3")
			l.during = func(pod *corev1.Pod) {
				if pod.Namespace == "cheap" {
					l.during = func(*corev1.Pod) {
						l.during = nil
						upstream.Activate(l.scheduler.SchedulingQueue, pod)
					}
				}
			}
		}, []string{"dear/1", "cheap/x", "dear/2", "cheap/x", "dear/3"}},
		"who has failed, behind those of its namespace": {func(l *loop) {
			first := l.comes("dear/1")
			for _, name := range []string{"dear/2", "cheap/x", "cheap/y", "dear/3"} {
				l.comes(name)
			}
			l.activates(first, "cheap/x")
		}, []string{"dear/1", "cheap/x", "cheap/y", "dear/2", "dear/3", "dear/1"}},
		"who has failed, in one look": {func(l *loop) {
			l.tick = 10 * ms
			l.comes("light/1")
			l.comes("heavy/1")
			l.comes("light/2")
			third := l.comes("light/3")
			l.comes("light/4")
			l.comes("heavy/2")
			l.comes("heavy/3")
			l.activates(third, "heavy/2")
		}, []string{"light/1", "heavy/1", "light/2", "light/3", "heavy/2", "light/4"}},
		"of higher priority": {func(l *loop) {
			for _, name := range []string{"dear/1", "dear/2"} {
				l.comes(name, high)
			}
			l.comes("cheap/x")
		}, []string{"dear/1", "dear/2", "cheap/x"}},
		"of higher priority, in turn": {func(l *loop) {
			l.comes("dear/1", high)
			l.comes("dear/2", high)
			l.comes("cheap/0")
			l.comes("cheap/x", high)
		}, []string{"dear/1", "cheap/x", "dear/2", "cheap/0"}},
		"who has gone": {func(l *loop) {
			for _, name := range []string{"dear/1", "dear/2", "dear/3"} {
				l.comes(name)
			}
			gone := l.comes("cheap/x")
			l.comes("cheap/y")
			l.during = func(*corev1.Pod) {
				l.during = nil
				upstream.Delete(l.scheduler.SchedulingQueue, gone)
				l.forgets(gone)
			}
		}, []string{"dear/1", "cheap/y", "dear/2", "dear/3"}},
		"who has gone, which the queue has not heard": {func(l *loop) {
			l.comes("dear/1")
			gone := l.comes("cheap/x")
			l.comes("dear/2")
			l.during = func(*corev1.Pod) { l.during = nil; l.forgets(gone) }
		}, []string{"dear/1", "cheap/x", "dear/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, costs)
			tc.come(l)
			var got []string
			for range tc.want {
				got = append(got, l.tries())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("they are tried in the order %s, want %s", strings.Join(got, ", "), strings.Join(tc.want, ", "))
			}
		})
	}
}

// forgets has the informers know a pod no more.
func (l *loop) forgets(pod *corev1.Pod) {
	l.t.Helper()
	pods := l.scheduler.Profiles[names.SchedulerName].SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	if err := pods.Delete(pod); err != nil {
		l.t.Fatal(err)
	}
}

// leaving has a pod that the queue is asked for leave in that moment, once.
type leaving struct {
	queue.SchedulingQueue
	name string
	told func()
}

func (l *leaving) GetPod(name, namespace string, group *corev1.PodSchedulingGroup) (*framework.QueuedPodInfo, bool) {
	info, ok := l.SchedulingQueue.GetPod(name, namespace, group)
	if told := l.told; name == l.name && told != nil {
		l.told = nil
		told()
	}
	return info, ok
}

// TestAPodThatLeavesInItsTurn is not tried after the queue has heard of it, which may be in the moment in which the pod is called.
func TestAPodThatLeavesInItsTurn(t *testing.T) {
	l := &loop{cluster: newCluster(t, gpuNode("a", "pcie")), costs: map[string]time.Duration{"dear": time.Second}, now: time.Now()}
	line := &leaving{SchedulingQueue: l.scheduler.SchedulingQueue, name: "x"}
	l.scheduler.SchedulingQueue = line
	l.take = plugins.TakeTurns(l.scheduler, func() time.Time { return l.now })
	l.comes("dear/1")
	l.comes("dear/2")
	l.tries()
	gone, heard, before := l.comes("cheap/x"), make(chan struct{}), false
	line.told = func() {
		go func() {
			defer close(heard)
			l.forgets(gone)
			upstream.Delete(l.scheduler.SchedulingQueue, gone)
		}()
		select { // at once, or when the pod has been called
		case <-heard:
			before = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	taken := upstream.Take(t, l.take)
	<-heard
	if before && taken.Pod().Name == "x" {
		t.Error("the pod is tried, and the queue had heard that it is deleted")
	}
}

// TestAGangIsNotInterruptedByTurns: once it has begun to take places its members come one after the other, whatever they cost, and so
// they do where it is another namespace's turn that waits longer.
func TestAGangIsNotInterruptedByTurns(t *testing.T) {
	l := newLoop(t, map[string]time.Duration{"gang": 40 * time.Millisecond, "other": 40 * time.Millisecond})
	group := &gangsv1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "gang", Name: "g", CreationTimestamp: metav1.NewTime(l.now.Add(-time.Minute))},
		Spec: gangsv1.PodGroupSpec{MinMember: 4}}
	profile := l.scheduler.Profiles[names.SchedulerName]
	if err := coscheduling.RegisterGroups(profile.SharedInformerFactory(), []*gangsv1.PodGroup{group}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		l.comes(fmt.Sprint("gang/", i), func(p *st.PodWrapper) { p.Label(names.LabelPodGroup, "g").CreationTimestamp(metav1.NewTime(l.now)) })
	}
	for i := range 4 {
		l.comes(fmt.Sprint("other/", i))
	}
	gangs := gangsOf(t, profile)
	var got []string
	l.during = func(pod *corev1.Pod) {
		if pod.Namespace == "gang" {
			gangs.Permit(t.Context(), framework.NewCycleState(), pod, "a")
		}
	}
	for range 8 {
		pod := upstream.Take(t, l.take).Pod()
		l.now = l.now.Add(40 * time.Millisecond)
		l.during(pod)
		got = append(got, pod.Namespace)
	}
	if want := "gang gang gang gang other other other other"; strings.Join(got, " ") != want {
		t.Errorf("they are tried in the order %v, want %s", got, want)
	}
}

func gangsOf(t *testing.T, profile framework.Framework) *coscheduling.Plugin {
	t.Helper()
	for _, plugin := range profile.EnqueueExtensions() {
		if gangs, ok := plugin.(*coscheduling.Plugin); ok {
			return gangs
		}
	}
	t.Fatal("there is no Coscheduling")
	return nil
}

// TestOthersWaitForTheirTurnAlone plays 20,000 pods of one namespace that wait and are tried again all the time, while one pod of another
// namespace comes each 20 ms. These wait for the attempt that runs and for what counts as equal, and not for 20,000.
func TestOthersWaitForTheirTurnAlone(t *testing.T) {
	const strangers, own, each, tick = 20, 2 * time.Millisecond, 20 * time.Millisecond, 250 * time.Microsecond
	for cost, hostile := range map[time.Duration]int{2 * time.Millisecond: 20_000, 30 * time.Millisecond: 2_000} {
		t.Run(cost.String(), func(t *testing.T) {
			l := newLoop(t, map[string]time.Duration{"hostile": cost, "others": own})
			l.tick = tick // a look is good for 20 times as long as it took: it is not made for each pod
			for i := range hostile {
				l.comes(fmt.Sprint("hostile/", i))
			}
			came, waited := map[string]time.Time{}, []time.Duration{}
			due := l.now
			for len(waited) < strangers {
				for ; len(came) < strangers && !due.After(l.now); due = due.Add(each) {
					name := fmt.Sprint("others/", len(came))
					l.comes(name)
					came[name] = due
				}
				if at, ok := came[l.tries()]; ok {
					waited = append(waited, l.now.Sub(at))
				}
			}
			slices.Sort(waited)
			most := cost + 5*time.Millisecond + cost + 2*own + 20*tick // who runs, what counts as equal, the last of that, and one before it
			if p99 := waited[len(waited)*99/100]; p99 > most {
				t.Errorf("the 99th percentile of others waits %s beside attempts of %s, want %s at most", p99, cost, most)
			}
			t.Logf("others wait %s in the median and %s at most", waited[len(waited)/2], waited[len(waited)-1])
		})
	}
}
