package coscheduling

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// polite has a running pod ask for time to save its work.
func polite(long string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Annotations = map[string]string{names.AnnotationCheckpointGrace: long}
	}
}

// keepsClock gives the lab a clock that the test moves.
func (l *lab) keepsClock() (now *time.Time) {
	now = ptr.To(noon)
	l.now = func() time.Time { return *now }
	return now
}

// obeys has the API server do what it is told with the annotations and nominations of pods, of which the informers tell.
func (l *lab) obeys() {
	l.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Pod{}, nil })
	l.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		var says struct {
			Metadata struct{ Annotations map[string]*string }
			Status   struct {
				NominatedNodeName string
				Conditions        []corev1.PodCondition
			}
		}
		if err := json.Unmarshal(patch.GetPatch(), &says); err != nil {
			return true, nil, err
		}
		l.changes(patch.GetName(), func(pod *corev1.Pod) {
			for name, value := range says.Metadata.Annotations {
				if delete(pod.Annotations, name); value != nil {
					pod.Annotations[name] = *value
				}
			}
			pod.Status.Conditions = append(pod.Status.Conditions, says.Status.Conditions...)
			if len(says.Metadata.Annotations)+len(says.Status.Conditions) == 0 {
				pod.Status.NominatedNodeName = says.Status.NominatedNodeName
			}
		})
		return true, &corev1.Pod{}, nil
	})
}

// now returns a pod as the informers have it.
func (l *lab) pod(name string) *corev1.Pod {
	object, _, _ := l.pods.GetByKey("ns/" + name)
	pod, _ := object.(*corev1.Pod)
	return pod
}

// changes has the informers tell of a change of a pod.
func (l *lab) changes(name string, change func(*corev1.Pod)) {
	before := l.pod(name)
	if before == nil {
		return
	}
	after := before.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	change(after)
	l.must(l.pods.Update(after))
	l.handlePodUpdate(before, after)
}

// goes has the informers tell that a pod is gone.
func (l *lab) goes(name string) {
	before := l.pod(name)
	l.must(l.pods.Delete(before))
	l.handlePodUpdate(before, nil)
}

func saves(pod *corev1.Pod) { pod.Annotations[names.AnnotationCheckpointedAt] = "2026-01-01T12:00:30Z" }

// noticed are the pods that a notice lies on, when all is written.
func (l *lab) noticed() (pods []string) {
	for !l.Settled() {
		time.Sleep(time.Millisecond)
	}
	for _, object := range l.pods.List() {
		if pod := object.(*corev1.Pod); pod.Annotations[names.AnnotationPreemptionNotice] != "" {
			pods = append(pods, pod.Name)
		}
	}
	return slices.Sorted(slices.Values(pods))
}

// newPolite has a gang of two that two pods are in the way of, of which the first asks for a minute.
func newPolite(t *testing.T) (l *lab, now *time.Time) {
	t.Helper()
	l = newRacks(t, 2)
	now = l.keepsClock()
	l.obeys()
	l.TakeOver()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "asks", 9, ofPriority(-1), polite("1m"))
	l.running(1, "other", 9, ofPriority(-1))
	l.member("m0")
	l.member("m1")
	return l, now
}

// tries tries a member as the informers have it.
func (l *lab) tries(name string) (node string, evicted []string) {
	l.Helper()
	node, evicted, _ = l.refuse(l.pod(name))
	return node, evicted
}

// TestWhoAsksForTimeIsToldFirst, and so are those that leave with it. Until its time is over nothing more is planned.
func TestWhoAsksForTimeIsToldFirst(t *testing.T) {
	l, now := newPolite(t)
	node, evicted := l.tries("m0")
	if node == "" || len(evicted) > 0 || !slices.Equal(l.noticed(), []string{"asks", "other"}) {
		t.Fatalf("%v are evicted and %v told for a place on %q", evicted, l.noticed(), node)
	}
	told, _ := notice.FromPod(l.pod("asks"))
	want := notice.Notice{At: noon, Until: noon.Add(time.Minute), For: notice.Preemptor{Namespace: "ns", Pod: "m0", Group: "g", UID: "job"}, Awaited: true}
	if told != want {
		t.Errorf("it is told %+v, want %+v", told, want)
	}
	for _, member := range []string{"m0", "m1"} {
		*now = now.Add(29 * time.Second)
		node, evicted := l.tries(member)
		if node == "" || node != l.pod(member).Status.NominatedNodeName || len(evicted) > 0 {
			t.Errorf("%v are evicted for a place on %q, and %s is nominated for %q", evicted, node, member, l.pod(member).Status.NominatedNodeName)
		}
		if by, ok := reason.EvictionPending.Text.ParseValues(l.told); !ok || by[0] != "2026-01-01T12:01:00Z" {
			t.Errorf("%s is told %q", member, l.told)
		}
	}
	*now = noon.Add(time.Minute)
	if _, evicted := l.tries("m0"); !slices.Equal(evicted, []string{"asks", "other"}) {
		t.Errorf("%v are evicted when its time is over", evicted)
	}
}

// TestAnAnswerEndsTheWait, and has the gang tried.
func TestAnAnswerEndsTheWait(t *testing.T) {
	l, _ := newPolite(t)
	l.tries("m0")
	l.forget()
	l.changes("other", saves)
	if tried := l.tried(); len(tried) > 0 {
		t.Errorf("%v are tried when one has saved its work that is not waited for", tried)
	}
	l.changes("asks", saves)
	if tried := l.tried(); len(tried) == 0 {
		t.Error("nobody is tried when the last one has answered")
	}
	if _, evicted := l.tries("m0"); !slices.Equal(evicted, []string{"asks", "other"}) {
		t.Errorf("%v are evicted then", evicted)
	}
	for _, gone := range []string{"asks", "other"} {
		l.changes(gone, leaving)
	}
	if !l.preemptions.IsEmpty() {
		t.Error("something is kept of a notice when all have left")
	}
}

// TestANoticeEndsWithItsReason: those that were told to leave are told that they may stay, and nobody is evicted.
func TestANoticeEndsWithItsReason(t *testing.T) {
	for name, happens := range map[string]func(*lab){
		"a member is gone":           func(l *lab) { l.goes("m1") },
		"a member ends":              func(l *lab) { l.changes("m1", leaving) },
		"its nominations have ended": func(l *lab) { l.changes("m1", func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "" }) },
		"it found room elsewhere":    func(l *lab) { l.changes("m0", boundTo("n9")) },
		"its node is gone when others are to leave": func(l *lab) {
			l.infos = l.infos[:1]
			l.changes("asks", saves)
			l.tries("m0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newPolite(t)
			l.tries("m0")
			happens(l)
			if told := l.noticed(); len(told) > 0 || !l.preemptions.IsEmpty() {
				t.Errorf("%v are to leave still", told)
			}
			for _, action := range l.client.Actions() {
				if action, ok := action.(clienttesting.DeleteAction); ok && len(action.GetDeleteOptions().DryRun) == 0 {
					t.Errorf("%s is evicted", action.GetName())
				}
			}
		})
	}
}

// TestFewerLeaveWhenSomeOfThemHaveEnded: who need not leave any more is told so.
func TestFewerLeaveWhenSomeOfThemHaveEnded(t *testing.T) {
	l, now := newPolite(t)
	l.tries("m0")
	l.infos[1] = nodeInfo(l.infos[1].Node())
	l.goes("other")
	*now = noon.Add(time.Minute)
	if _, evicted := l.tries("m0"); !slices.Equal(evicted, []string{"asks"}) {
		t.Errorf("%v are evicted", evicted)
	}
	l, now = newPolite(t)
	l.tries("m0")
	l.infos = append(l.infos, nodeInfo(l.infos[0].Node().DeepCopy()))
	l.infos[2].Node().Name = "n2"
	*now = noon.Add(time.Minute)
	if _, evicted := l.tries("m0"); len(evicted) != 1 || len(l.noticed()) != 1 || l.noticed()[0] != evicted[0] {
		t.Errorf("%v are evicted when there is a node more, and %v are to leave", evicted, l.noticed())
	}
}

// TestWhatAUserWritesChangesNothing of who leaves, and when.
func TestWhatAUserWritesChangesNothing(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"it takes the notice away": func(pod *corev1.Pod) { delete(pod.Annotations, names.AnnotationPreemptionNotice) },
		"it gives itself a year": func(pod *corev1.Pod) {
			told, _ := notice.FromPod(pod)
			told.Until = noon.AddDate(1, 0, 0)
			pod.Annotations[names.AnnotationPreemptionNotice] = told.AnnotationText()
		},
		"it asks for more": polite("1h"),
	} {
		t.Run(name, func(t *testing.T) {
			l, now := newPolite(t)
			l.tries("m0")
			l.changes("asks", change)
			*now = noon.Add(time.Minute)
			if _, evicted := l.tries("m0"); !slices.Equal(evicted, []string{"asks", "other"}) {
				t.Errorf("%v are evicted", evicted)
			}
		})
	}
}

// TestWhoIsToldNothing: the others are evicted at once.
func TestWhoIsToldNothing(t *testing.T) {
	tests := map[string]struct {
		change   func(*lab)
		priority int32
	}{
		"its pool allows no time":            {change: func(l *lab) { l.declares(map[string]any{"maxCheckpointGrace": "0s"}) }},
		"it does not run yet":                {change: func(l *lab) { l.changesOnNode(0, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }) }},
		"it asks for nothing":                {change: func(l *lab) { l.changesOnNode(0, polite("0s")) }},
		"what it asks for cannot be read":    {change: func(l *lab) { l.changesOnNode(0, polite("soon")) }},
		"it leaves for a service of all":     {priority: 2_000_000_000},
		"it is a replay":                     {change: func(l *lab) { l.replay = true }},
		"its pool says no, and then it asks": {change: func(l *lab) { l.declares(map[string]any{"checkpointGrace": "1m", "maxCheckpointGrace": "0s"}) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, _ := newPolite(t)
			if tc.change != nil {
				tc.change(l)
			}
			for _, member := range []string{"m0", "m1"} {
				l.changes(member, ofPriority(tc.priority))
			}
			if _, evicted := l.tries("m0"); !slices.Equal(evicted, []string{"asks", "other"}) || len(l.noticed()) > 0 {
				t.Errorf("%v are evicted, and %v told", evicted, l.noticed())
			}
		})
	}
}

// changesOnNode changes the pod of a node.
func (l *lab) changesOnNode(node int, change func(*corev1.Pod)) {
	pod := l.infos[node].GetPods()[0].GetPod()
	l.changes(pod.Name, change)
	l.infos[node] = nodeInfo(l.infos[node].Node(), l.pod(pod.Name))
}

// TestAMemberMadeAnewLeavesWithItsGang: or who makes one every minute would never leave.
func TestAMemberMadeAnewLeavesWithItsGang(t *testing.T) {
	l := newRacks(t, 2)
	now := l.keepsClock()
	l.obeys()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.group("low", map[string]any{"minMember": int64(2)})
	low := func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "low"; ownedBy("low")(pod) }
	l.running(0, "low-0", 9, ofPriority(-1), polite("1m"), low)
	l.running(1, "low-1", 9, ofPriority(-1), polite("1m"), low)
	l.member("m0")
	l.member("m1")
	if l.tries("m0"); !slices.Equal(l.noticed(), []string{"low-0", "low-1"}) {
		t.Fatalf("%v are told", l.noticed())
	}
	l.goes("low-1")
	l.infos[1] = nodeInfo(l.infos[1].Node())
	*now = now.Add(time.Minute)
	l.running(1, "low-1-again", 0, ofPriority(-1), polite("1m"), low)
	if _, evicted := l.tries("m0"); !slices.Equal(evicted, []string{"low-0", "low-1-again"}) {
		t.Errorf("%v are evicted", evicted)
	}
}

// TestOneOfHigherPriorityTakesTheVictimsOver: they have no more time than they were told.
func TestOneOfHigherPriorityTakesTheVictimsOver(t *testing.T) {
	l, now := newPolite(t)
	l.tries("m0")
	l.group("h", map[string]any{"minMember": int64(2)})
	for _, name := range []string{"h0", "h1"} {
		l.member(name, of("h"), ofPriority(7))
	}
	*now = noon.Add(40 * time.Second)
	if _, evicted := l.tries("h0"); len(evicted) > 0 {
		t.Fatalf("%v are evicted", evicted)
	}
	told, _ := notice.FromPod(l.pod("asks"))
	if told.For.Group != "h" || !told.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("it is told %+v", told)
	}
	*now = noon.Add(time.Minute)
	if _, evicted := l.tries("h0"); !slices.Equal(evicted, []string{"asks", "other"}) {
		t.Errorf("%v are evicted", evicted)
	}
}
