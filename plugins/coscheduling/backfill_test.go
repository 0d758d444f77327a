package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/survival"
	"g8s.host/gpu-scheduler/test/fixture"
)

// keeping has promises made for starts within a day, on full nodes whose pods end after ten minutes, twenty and so on.
func keeping(t *testing.T, nodes int) (l *lab, clock *time.Time) {
	t.Helper()
	l = newLab(t, nodes)
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	clock = &now
	l.now = func() time.Time { return *clock }
	l.startReservations = backfill.NewStartReservations(func() time.Time { return l.now() })
	l.startReservations.ExtendHorizon(24 * time.Hour)
	l.startReservations.SetPositionFunc(l.backfillPosition)
	for node := range nodes {
		l.running(node, fmt.Sprint("on", node), 0, limitedTo(10*(node+1)))
	}
	return l, clock
}

func limitedTo(minutes int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(60*minutes - 30)) // with what it has to end it is gone after so many minutes
	}
}

// gangOf has members wait for a PodGroup that is so many minutes old.
func (l *lab) gangOf(name string, members, minutes int, change ...func(*corev1.Pod)) (first *corev1.Pod) {
	l.Helper()
	l.group(name, map[string]any{"minMember": int64(members)}, func(group *unstructured.Unstructured) {
		group.SetCreationTimestamp(metav1.NewTime(l.now().Add(-time.Duration(minutes) * time.Minute)))
	})
	for i := range members {
		pod := l.member(fmt.Sprint(name, "-", i), append(change, func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = name })...)
		if i == 0 {
			first = pod
		}
	}
	return first
}

// promisedTo is what a job was promised: nodes, and minutes until it starts; "" for nothing.
func (l *lab) promisedTo(pod *corev1.Pod) string {
	promise := l.startReservations.CurrentSet().ForJob(l.backfillPosition(pod).Job)
	if promise == nil {
		return ""
	}
	return fmt.Sprintf("%d in %.0f min", len(promise.Places), promise.At.Sub(l.now()).Minutes())
}

func TestTheFirstGangIsPromisedWhereItFitsFirst(t *testing.T) {
	tests := map[string]struct {
		change func(*lab)
		want   string
	}{
		"as those end who are there": {want: "2 in 20 min"},
		"one of them may stay for ever": {change: func(l *lab) {
			l.running(0, "service", 60, func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = nil })
		}, want: "2 in 30 min"},
		"one should have left long ago": {change: func(l *lab) { l.running(1, "dead", 60, limitedTo(30)) }, want: "2 in 30 min"},
		"one is leaving": {change: func(l *lab) {
			l.running(2, "leaving", 60, func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(l.now().Add(time.Minute))) })
		}, want: "2 in 20 min"},
		"all of them may":         {change: func(l *lab) { l.infos = nil }},
		"nobody keeps promises":   {change: func(l *lab) { l.startReservations = backfill.NewStartReservations(l.now) }},
		"that is too far ahead":   {change: func(l *lab) { l.startReservations = promisesFor(l, 15*time.Minute) }},
		"another job comes first": {change: func(l *lab) { l.refuse(l.gangOf("older", 3, 60)) }},
		"the other one is of lower priority": {change: func(l *lab) {
			l.refuse(l.gangOf("older", 3, 60, func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](-1) }))
		}, want: "2 in 20 min"},
		"a pod of no gang comes first": {change: func(l *lab) {
			l.postFilter(framework.NewCycleState(), l.member("single", func(pod *corev1.Pod) {
				pod.Labels, pod.CreationTimestamp = nil, metav1.NewTime(l.now().Add(-time.Hour))
			}))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, _ := keeping(t, 3)
			if tc.change != nil {
				tc.change(l)
			}
			gang := l.gangOf("g", 2, 5)
			l.refuse(gang)
			if got := l.promisedTo(gang); got != tc.want {
				t.Errorf("promised %q, want %q", got, tc.want)
			}
			if told := strings.Contains(l.told, "promised: 2 node(s) are kept for it, and it starts there by 2026-12-01T12:"); told != (tc.want != "") {
				t.Errorf("told %q", l.told)
			}
		})
	}
}

// TestAPromiseNamesTheDomain in which all of a gang will lie that asks for a level, by deadlines and by what is expected.
func TestAPromiseNamesTheDomain(t *testing.T) {
	for name, tc := range map[string]struct {
		layout  string
		members int
		past    *survival.History
		want    string
	}{
		"it has to be one rack":        {layout: "required=rack", members: 2, want: "promised: 2 node(s) of rack r0 are kept for it, and it starts there by 2026-12-01T12:20:00Z"},
		"one rack is preferred":        {layout: "preferred=rack", members: 2, want: "promised: 2 node(s) of rack r0 are kept for it, and it starts there by 2026-12-01T12:20:00Z"},
		"it needs two racks":           {layout: "preferred=rack", members: 3, want: "promised: 3 node(s) are kept for it, and it starts there by 2026-12-01T12:30:00Z"},
		"where it lies is of no count": {members: 2, want: "promised: 2 node(s) are kept for it, and it starts there by 2026-12-01T12:20:00Z"},
		"by how long others have run": {layout: "required=rack", members: 2, past: took(40),
			want: "promised: 2 node(s) of rack r0 are kept for it, and it is expected to start there by 2026-12-01T12:40:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := keeping(t, 4)
			for i, info := range l.infos {
				info.Node().Labels[names.LabelRack] = fmt.Sprint("r", i/2)
				if tc.past != nil {
					endsAlone(info.GetPods()[0].GetPod())
				}
			}
			l.startReservations.SetHistory(tc.past)
			gang := l.gangOf("g", tc.members, 5)
			l.group("g", map[string]any{"minMember": int64(tc.members)}, func(group *unstructured.Unstructured) {
				group.SetCreationTimestamp(metav1.NewTime(l.now().Add(-5 * time.Minute)))
				if tc.layout != "" {
					laidOut(tc.layout)(group)
				}
			})
			l.refuse(gang)
			if !strings.Contains(l.told, tc.want) {
				t.Errorf("told %q, want %q", l.told, tc.want)
			}
		})
	}
}

// endsAlone has a pod end by itself, without a deadline.
func endsAlone(pod *corev1.Pod) {
	pod.Spec.ActiveDeadlineSeconds, pod.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
}

// took is what is learnt from 40 jobs of 8 GPUs in the namespace of the lab, each of which took so many minutes.
func took(minutes int) *survival.History {
	past := &survival.History{}
	for range 40 {
		past.AddRun(survival.Job{Namespace: "ns", GPUs: 8}, time.Duration(minutes)*time.Minute)
	}
	return past
}

// TestAGangIsPromisedWhenOthersAreExpectedToEnd, where deadlines tell nothing; deadlines alone count where they do.
func TestAGangIsPromisedWhenOthersAreExpectedToEnd(t *testing.T) {
	allEnd := func(l *lab) {
		for _, info := range l.infos {
			endsAlone(info.GetPods()[0].GetPod())
		}
	}
	tests := map[string]struct {
		past   *survival.History
		change func(*lab)
		want   string
		// sure is whether it is said for certain.
		sure bool
	}{
		"nobody has a deadline":             {past: took(45), change: allEnd, want: "2 in 45 min"},
		"nor does anybody know of the past": {change: allEnd},
		"they take longer than is promised": {past: took(25 * 60), change: allEnd},
		"one of them has":                   {past: took(45), change: func(l *lab) { endsAlone(l.infos[1].GetPods()[0].GetPod()); endsAlone(l.infos[2].GetPods()[0].GetPod()) }, want: "2 in 45 min"},
		"two of them have, and that is enough": {past: took(1), change: func(l *lab) { endsAlone(l.infos[0].GetPods()[0].GetPod()) },
			want: "2 in 30 min", sure: true},
		"all of them have": {past: took(1), want: "2 in 20 min", sure: true},
		"two are services": {past: took(45), change: func(l *lab) {
			allEnd(l)
			for _, info := range l.infos[:2] {
				info.GetPods()[0].GetPod().Spec.RestartPolicy = corev1.RestartPolicyAlways
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, _ := keeping(t, 3)
			if tc.change != nil {
				tc.change(l)
			}
			l.startReservations.SetHistory(tc.past)
			gang := l.gangOf("g", 2, 5)
			l.refuse(gang)
			if got := l.promisedTo(gang); got != tc.want {
				t.Errorf("promised %q, want %q", got, tc.want)
			}
			for _, said := range []struct {
				text string
				want bool
			}{{"and it starts there by 2026-12-01T12:", tc.sure}, {"and it is expected to start there by 2026-12-01T12:", tc.want != "" && !tc.sure}} {
				if strings.Contains(l.told, said.text) != said.want {
					t.Errorf("told %q", l.told)
				}
			}
		})
	}
}

// TestWhoLastsLongerThanExpected makes a gang wait until it is expected to be gone again, or until others are; without anybody who has lasted
// as long nothing is promised.
func TestWhoLastsLongerThanExpected(t *testing.T) {
	l, clock := keeping(t, 2)
	for _, info := range l.infos {
		endsAlone(info.GetPods()[0].GetPod())
	}
	past := took(30)
	for range 40 {
		past.AddRun(survival.Job{Namespace: "ns", GPUs: 8}, 20*time.Minute)
	}
	l.startReservations.SetHistory(past)
	gang := l.gangOf("g", 2, 5)
	for _, step := range []struct {
		passes time.Duration
		want   string
	}{{0, "2 in 30 min"}, {10 * time.Minute, "2 in 20 min"}, {21 * time.Minute, ""}} {
		*clock = clock.Add(step.passes)
		if l.refuse(gang); l.promisedTo(gang) != step.want {
			t.Errorf("promised %q at %s, want %q", l.promisedTo(gang), clock.Format(time.TimeOnly), step.want)
		}
	}
}

// verdicts are those of filters, by node; on all others Coscheduling has the word.
type verdicts map[string]*fwk.Status

func (v verdicts) Get(node string) *fwk.Status {
	if status, ok := v[node]; ok {
		return status
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no").WithPlugin(Name)
}

func (verdicts) NodesForStatusCode(fwk.NodeInfoLister, fwk.Code) ([]fwk.NodeInfo, error) {
	return nil, nil
}

// TestWhomNothingIsPromised: what keeps them out may never end, or is not that others are there.
func TestWhomNothingIsPromised(t *testing.T) {
	full := fwk.NewStatus(fwk.Unschedulable, "node(s) have too few free GPUs").WithPlugin("GPUFilter")
	volume := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had volume node affinity conflict").WithPlugin("VolumeBinding")
	single := func(l *lab) *corev1.Pod { return l.member("single", func(pod *corev1.Pod) { pod.Labels = nil }) }
	for name, tc := range map[string]struct {
		job      func(*lab) *corev1.Pod
		verdicts verdicts
		want     bool
	}{
		"a gang that Coscheduling refuses":       {job: func(l *lab) *corev1.Pod { return l.gangOf("g", 2, 5) }, want: true},
		"a gang that a plugin before it refuses": {job: func(l *lab) *corev1.Pod { return l.gangOf("g", 2, 5) }, verdicts: verdicts{"": volume}},
		"a gang that room is not enough for": {job: func(l *lab) *corev1.Pod {
			pod := l.gangOf("g", 2, 5)
			l.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"}).MinResources = map[corev1.ResourceName]float64{"cpu": 1e9}
			return pod
		}},
		"a pod where others are":                        {job: single, verdicts: verdicts{"n0": volume, "n1": full}, want: true},
		"a pod whose volume is elsewhere":               {job: single, verdicts: verdicts{"n0": volume, "n1": volume}},
		"a pod that has room, and something else lacks": {job: func(l *lab) *corev1.Pod { l.infos[0] = nodeInfo(l.infos[0].Node()); return single(l) }, verdicts: verdicts{"n1": full}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := keeping(t, 3)
			pod := tc.job(l)
			if _, status := l.PostFilter(l.Context(), framework.NewCycleState(), pod, tc.verdicts); (l.promisedTo(pod) != "") != tc.want {
				t.Errorf("promised %q, want any: %v: %s", l.promisedTo(pod), tc.want, status.Message())
			}
		})
	}
}

// TestWhoIsRefusedWhereThereIsRoomIsPromisedLess: a pod whose volume is elsewhere is first in line each time that the nodes are full again. It
// is promised nothing for longer each time, so that others are.
func TestWhoIsRefusedWhereThereIsRoomIsPromisedLess(t *testing.T) {
	l, clock := keeping(t, 3)
	full := verdicts{"n0": fwk.NewStatus(fwk.Unschedulable, "node(s) have too few free GPUs").WithPlugin("GPUFilter")}
	single := l.member("single", func(pod *corev1.Pod) {
		pod.Labels, pod.CreationTimestamp = nil, metav1.NewTime(l.now().Add(-time.Hour))
	})
	occupied, empty := slices.Clone(l.infos), slices.Clone(l.infos)
	empty[1] = nodeInfo(empty[1].Node())
	try := func(infos []fwk.NodeInfo) string {
		l.infos = infos
		l.PostFilter(l.Context(), framework.NewCycleState(), single, full)
		return l.promisedTo(single)
	}
	for _, minutes := range []int{10, 20, 40} {
		for _, pod := range l.everybody() {
			pod.Status.StartTime = ptr.To(metav1.NewTime(*clock))
		}
		if got := try(occupied); got != "1 in 10 min" {
			t.Fatalf("while all nodes are full it is promised %q", got)
		}
		*clock = clock.Add(backfill.RenewInterval)
		if got := try(empty); got != "" {
			t.Fatalf("when a node was free for it, and it was refused, it is promised %q", got)
		}
		*clock = clock.Add(time.Duration(minutes)*time.Minute - time.Second)
		for _, pod := range l.everybody() {
			pod.Status.StartTime = ptr.To(metav1.NewTime(*clock))
		}
		if got := try(occupied); got != "" {
			t.Fatalf("%d minutes after that it is promised %q", minutes, got)
		}
		*clock = clock.Add(time.Second)
	}
}

// TestGangsLeaveWhatWasPromised: who comes after finds no room there, unless it is gone by then.
func TestGangsLeaveWhatWasPromised(t *testing.T) {
	for name, tc := range map[string]struct {
		change []func(*corev1.Pod)
		want   bool
	}{
		"it could stay":              {},
		"it is gone by then":         {change: []func(*corev1.Pod){limitedTo(15)}, want: true},
		"it is of a higher priority": {change: []func(*corev1.Pod){func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](1) }}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := keeping(t, 4)
			l.infos[0], l.infos[1] = nodeInfo(l.infos[0].Node()), nodeInfo(l.infos[1].Node())
			large := l.gangOf("large", 4, 5)
			if l.refuse(large); l.promisedTo(large) != "4 in 40 min" {
				t.Fatalf("promised %q", l.promisedTo(large))
			}
			small := l.gangOf("small", 2, 0, tc.change...)
			_, status := l.PreFilter(l.Context(), framework.NewCycleState(), small, l.infos)
			if got := status.Code() != fwk.UnschedulableAndUnresolvable; got != tc.want {
				t.Errorf("it begins: %v, want %v: %s", got, tc.want, status.Message())
			}
		})
	}
}

// BenchmarkSearch looks where a gang of 64 nodes starts first on 5,000, with 8 pods each that end one after the other, or of which none does; and
// where they have no deadlines, by how long others have run.
func BenchmarkSearch(b *testing.B) {
	for name, tc := range map[string]struct{ limited, learns bool }{"with deadlines": {limited: true}, "without": {}, "as expected": {learns: true}} {
		b.Run(name, func(b *testing.B) {
			limited := tc.limited
			l := newLab(b, 5000)
			l.startReservations = backfill.NewStartReservations(l.now)
			l.startReservations.ExtendHorizon(24 * time.Hour)
			l.startReservations.SetPositionFunc(l.backfillPosition)
			for node, info := range l.infos {
				var pods []*corev1.Pod
				for i := range 8 {
					pod := fixture.Pod(fmt.Sprint(node, "-", i)).GPUs(1).Obj()
					pod.UID = types.UID(pod.Name)
					pod.Status.StartTime = ptr.To(metav1.NewTime(l.now()))
					switch {
					case limited:
						limitedTo(10 + (node*7+i*131)%600)(pod)
					case tc.learns:
						pod.Namespace = "ns"
						endsAlone(pod)
						pod.Status.StartTime = ptr.To(metav1.NewTime(l.now().Add(-time.Duration((node*7+i*131)%40) * time.Minute)))
					}
					pods = append(pods, pod)
				}
				l.infos[node] = nodeInfo(info.Node(), pods...)
			}
			if tc.learns {
				l.startReservations.SetHistory(took(60))
			}
			gang := l.gangOf("g", 64, 5)
			group := l.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"})
			m := l.membersOf(gang, group)
			for b.Loop() {
				if found, _ := l.findEarliestStart(group, &m, l.now(), nil, nil); (found != nil) != (limited || tc.learns) {
					b.Fatalf("found %v", found)
				}
			}
		})
	}
}
