package coscheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestAMemberThatStillEndsIsAwaited: the one that is made again may take its place, if its node is open to it.
func TestAMemberThatStillEndsIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		closed bool
		change func(l *lab) // after the member was deleted
		ends   bool
	}{
		"on a node that is open":   {change: func(*lab) {}},
		"until it is gone":         {change: func(l *lab) { l.must(l.pods.Delete(l.pod("lost"))) }, ends: true},
		"on a node that is closed": {closed: true, change: func(*lab) {}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(time.Hour)
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": int64(2)})
			l.podChanged(l.member("a", bornAt(0), boundAfter(5, "n0")))
			lost := l.member("lost", bornAt(0), boundAfter(5, "n1"))
			l.podChanged(lost)
			for i, pod := range []string{"a", "lost"} {
				l.infos[i] = nodeInfo(l.infos[i].Node(), l.pod(pod))
			}
			if tc.closed {
				node := l.infos[1].Node().DeepCopy()
				node.Spec.Taints = []corev1.Taint{{Key: "example.com/service", Effect: corev1.TaintEffectNoExecute}}
				l.must(l.store.Update(node))
			}
			gone := lost.DeepCopy()
			gone.DeletionTimestamp = &metav1.Time{Time: now.Add(25 * time.Second)}
			l.must(l.pods.Update(gone))
			l.podChanged(gone)
			tc.change(l)
			if ends := l.ends("a", l.member("again", bornAt(3601)), &now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestAProcessThatStartsLaterAwaitsAMember that was lost before, and still ends: the pods alone say so, however long the gang ran.
func TestAProcessThatStartsLaterAwaitsAMember(t *testing.T) {
	for name, tc := range map[string]struct {
		closed bool // the node of the lost member
		before bool // the loss is seen before the PodGroup is
		after  func(l *lab, lost *corev1.Pod)
		ends   bool
	}{
		"that still ends on an open node":          {after: func(*lab, *corev1.Pod) {}},
		"that still ends on a closed node":         {closed: true, after: func(*lab, *corev1.Pod) {}, ends: true},
		"that has ended since":                     {after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }, ends: true},
		"that has ended since, of a later group":   {before: true, after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }, ends: true},
		"whose grace period is longer than others": {after: func(l *lab, lost *corev1.Pod) { lost.DeletionGracePeriodSeconds = ptr.To(int64(55)) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(time.Hour)
			l.now = func() time.Time { return now }
			if !tc.before {
				l.group("g", map[string]any{"minMember": int64(2)})
			}
			first := l.member("a", bornAt(0), boundAfter(5, "n0"), planned("a/2"))
			lost := l.member("lost", bornAt(0), boundAfter(5, "n1"), planned("a/2"), func(pod *corev1.Pod) {
				pod.DeletionTimestamp = &metav1.Time{Time: now.Add(25 * time.Second)}
			})
			for i, pod := range []*corev1.Pod{first, lost} {
				l.infos[i] = nodeInfo(l.infos[i].Node(), pod)
				l.podChanged(pod)
			}
			if tc.before {
				l.group("g", map[string]any{"minMember": int64(2)})
				l.groupChanged(nil, l.groups.GetGroup(mustGroup(first)))
			}
			if tc.closed {
				node := l.infos[1].Node().DeepCopy()
				node.Spec.Taints = []corev1.Taint{{Key: "example.com/service", Effect: corev1.TaintEffectNoExecute}}
				l.must(l.store.Update(node))
			}
			tc.after(l, lost)
			if ends := l.ends("a", l.member("again", bornAt(3601)), &now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestALossThatWasMadeGoodEndsNothing: a process that starts later sees one that still ends on a dead node, and was made again long ago. Another one
// has ended by itself since, and finds no room.
func TestALossThatWasMadeGoodEndsNothing(t *testing.T) {
	leaves := func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(3500 * time.Second)}, ptr.To(int64(30))
	}
	for name, tc := range map[string]struct {
		other bool // which did not end by itself
		after func(l *lab, lost *corev1.Pod)
		ends  bool
	}{
		"while it ends":                {after: func(*lab, *corev1.Pod) {}},
		"once it has ended":            {after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }},
		"but another was deleted, too": {other: true, after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 4)
			l.answers()
			now := l.keepsClock()
			*now = noon.Add(time.Hour)
			l.group("g", map[string]any{"minMember": int64(4)})
			lost := l.member("lost", bornAt(0), boundAfter(5, "n0"), planned("a/4"), leaves)
			members := []*corev1.Pod{
				lost, l.member("made", bornAt(3480), boundAfter(3490, "n1"), planned("b/1")),
				l.member("a", bornAt(0), boundAfter(5, "n2"), planned("a/4")), l.member("b", bornAt(0), boundAfter(5, "n3"), planned("a/4")),
			}
			for i, pod := range members {
				l.infos[i] = nodeInfo(l.infos[i].Node(), pod)
			}
			if tc.other {
				members = append(members, l.member("other", bornAt(0), boundAfter(5, "n0"), planned("a/4"), leaves))
			}
			for _, pod := range members {
				l.podChanged(pod)
			}
			tc.after(l, lost)
			if ends := l.ends("a", l.member("again", bornAt(3601)), now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestSiblingsWithPlacesExtendNoTime: when one of half a gang finds no place, those that got one in the same round give it up.
func TestSiblingsWithPlacesExtendNoTime(t *testing.T) {
	l := newLab(t, 3)
	l.answers()
	now := noon.Add(20 * time.Second)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(3)})
	first := l.member("a", bornAt(0), boundAfter(5, "n0"), planned("a/3"))
	l.podChanged(first)
	l.infos[0] = nodeInfo(l.infos[0].Node(), first)
	second, third := l.member("b", bornAt(0)), l.member("c", bornAt(0))
	var ended []string
	for range 2 {
		cs := framework.NewCycleState()
		if status, _ := l.Permit(t.Context(), cs, second, "n1"); !status.IsWait() {
			t.Fatal("the second does not wait for the third")
		}
		l.hold(second)
		ended = append(ended, func() []string { _, evicted := l.postFilter(framework.NewCycleState(), third); return evicted }()...)
		now = now.Add(phase.CompleteWithin + time.Millisecond)
	}
	if !slices.Equal(ended, []string{"a"}) {
		t.Errorf("%v end, want the one that is bound, once", ended)
	}
}

// longestHalf is how long a gang may have too few members bound while one of it waits: until that one is tried, and a while that it is given.
const longestHalf = 10 * time.Second

// TestNoGangIsHalfForLong plays random interleavings of members that are lost in all ways, made again one by one and late, and of pods of others
// that take their places.
func TestNoGangIsHalfForLong(t *testing.T) {
	games := 10_000
	if testing.Short() {
		games = 300
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 4)
		l.answers()
		ended := 0
		for seed := range games {
			g := newGame(l, uint64(seed)) //nolint:gosec // it is positive
			for range 40 * time.Second / tick {
				g.step()
			}
			ended += g.ended
			if g.clear(); t.Failed() {
				t.Fatalf("game %d", seed)
			}
		}
		if ended < games/10 {
			t.Errorf("%d members of half gangs were ended in %d games: hardly any gang was half", ended, games)
		}
	})
}

// tick is the time between two steps of a game.
const tick = 250 * time.Millisecond

// game is one gang on the nodes of a lab, whose operator makes anew what it loses.
type game struct {
	*lab
	random *rand.Rand
	size   int
	made   int
	// closed are nodes that are not there, or not open, and until when.
	closed map[int]time.Time
	// on are the pods on each node; remakes is when members are made again, exits when those that leave are gone.
	on      [4][]*corev1.Pod
	remakes []time.Time
	exits   map[types.UID]time.Time
	queue   []string
	half    time.Duration
	ended   int
}

func newGame(l *lab, seed uint64) *game {
	g := &game{lab: l, random: rand.New(rand.NewPCG(seed, 33)), closed: map[int]time.Time{}, exits: map[types.UID]time.Time{}} //nolint:gosec // no secret
	g.size = 2 + g.random.IntN(3)
	l.group("g", map[string]any{"minMember": int64(g.size)})
	for node := range g.size {
		g.put(g.remake(), node)
	}
	return g
}

// remake makes a member.
func (g *game) remake() *corev1.Pod {
	g.made++
	return g.member(fmt.Sprint("m-", g.made), func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(time.Now()) })
}

// put binds a pod to a node.
func (g *game) put(pod *corev1.Pod, node int) {
	bound := pod.DeepCopy()
	boundTo(fmt.Sprint("n", node))(bound)
	g.must(g.pods.Update(bound))
	g.on[node] = append(g.on[node], bound)
	g.refresh(node)
	g.podChanged(bound)
}

// refresh has the scheduler see what is on a node.
func (g *game) refresh(node int) {
	g.infos[node] = nodeInfo(fixture.Node(fmt.Sprint("n", node)).GPUs(8, "T4").Obj(), g.on[node]...)
	if _, closed := g.closed[node]; closed {
		g.infos[node].Node().Spec.Unschedulable = true
		g.infos[node].Node().Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	}
	g.must(g.store.Update(g.infos[node].Node()))
}

// step lets a tick pass, and everybody act.
func (g *game) step() {
	time.Sleep(tick)
	synctest.Wait()
	now := time.Now()
	g.open(now)
	if g.random.IntN(25) == 0 {
		g.loseOne(now)
	}
	g.strangers()
	for uid, at := range g.exits {
		if !now.Before(at) {
			g.exit(uid)
		}
	}
	g.remakes = slices.DeleteFunc(g.remakes, func(at time.Time) bool {
		if now.Before(at) {
			return false
		}
		g.queue = append(g.queue, g.remake().Name)
		return true
	})
	g.schedule()
	g.judge()
}

// open opens nodes again whose time has come.
func (g *game) open(now time.Time) {
	for node, until := range g.closed {
		if !now.Before(until) {
			delete(g.closed, node)
			g.refresh(node)
			g.wake(nil)
		}
	}
}

// live are the members that have a node, or have none.
func (g *game) live(bound bool) (pods []*corev1.Pod) {
	for _, pod := range g.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"}) {
		if (pod.Spec.NodeName != "") == bound {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// loseOne takes a member: its user deletes it, or its node is closed and the member evicted.
func (g *game) loseOne(now time.Time) {
	bound := g.live(true)
	if len(bound) == 0 {
		return
	}
	pod := bound[g.random.IntN(len(bound))]
	if g.random.IntN(2) == 0 {
		node := slices.IndexFunc(g.on[:], func(on []*corev1.Pod) bool {
			return slices.ContainsFunc(on, func(p *corev1.Pod) bool { return p.UID == pod.UID })
		})
		g.closed[node] = now.Add(time.Duration(5+g.random.IntN(15)) * time.Second)
		g.refresh(node)
	}
	g.leave(pod, now)
}

// leave has a pod end some time from now, and be made again before that or later.
func (g *game) leave(pod *corev1.Pod, now time.Time) {
	gone := pod.DeepCopy()
	gone.DeletionTimestamp = ptr.To(metav1.NewTime(now.Add(30 * time.Second)))
	g.must(g.pods.Update(gone))
	g.podChanged(gone)
	g.exits[pod.UID] = now.Add(time.Duration(g.random.IntN(8)) * time.Second)
	g.remakes = append(g.remakes, now.Add(time.Duration(g.random.IntN(8000))*time.Millisecond))
}

// exit removes a pod from its node.
func (g *game) exit(uid types.UID) {
	delete(g.exits, uid)
	for node := range g.on {
		at := slices.IndexFunc(g.on[node], func(pod *corev1.Pod) bool { return pod.UID == uid })
		if at < 0 {
			continue
		}
		pod := g.on[node][at]
		g.on[node] = slices.Delete(slices.Clone(g.on[node]), at, at+1)
		g.refresh(node)
		g.must(g.pods.Delete(pod))
		g.podGone(pod)
		g.wake(pod)
	}
}

// strangers come to nodes with room, and go.
func (g *game) strangers() {
	node := g.random.IntN(len(g.on))
	_, closed := g.closed[node]
	switch {
	case len(g.on[node]) == 0 && !closed && g.random.IntN(4) == 0:
		g.made++
		pod := fixture.Pod(fmt.Sprint("other-", g.made)).GPUs(8).Obj()
		pod.Namespace, pod.UID = "ns", types.UID(pod.Name)
		g.must(g.pods.Add(pod))
		g.put(pod, node)
	case len(g.on[node]) == 1 && strings.HasPrefix(g.on[node][0].Name, "other") && g.random.IntN(12) == 0:
		g.exit(g.on[node][0].UID)
	}
}

// wake queues the members that may have room since a pod has gone, nil for a node that has been opened.
func (g *game) wake(gone *corev1.Pod) {
	for _, pod := range g.live(false) {
		queue := true
		if gone != nil {
			what, err := g.afterPodChange(klog.Background(), pod, gone, nil)
			queue = err != nil || what == fwk.Queue
		}
		if queue {
			g.queue = append(g.queue, pod.Name)
		}
	}
}

// schedule tries the members that were queued, and takes away those that the scheduler ends.
func (g *game) schedule() {
	for range 20 {
		for _, name := range append(g.queue, g.tried()...) {
			g.queue = append(g.queue, strings.TrimPrefix(name, "ns/"))
		}
		g.forget()
		names := slices.Compact(slices.Sorted(slices.Values(g.queue)))
		if g.queue = nil; len(names) == 0 {
			break
		}
		for _, name := range names {
			if at := slices.IndexFunc(g.live(false), func(pod *corev1.Pod) bool { return pod.Name == name }); at >= 0 {
				g.attempt(g.live(false)[at])
			}
		}
	}
	for _, name := range g.evicted() {
		for _, pod := range g.live(true) {
			if pod.Name == name {
				g.ended++
				g.leave(pod, time.Now())
			}
		}
	}
	g.client.ClearActions()
}

// attempt is one scheduling cycle of a member.
func (g *game) attempt(pod *corev1.Pod) {
	if g.placeOf(pod) != placeNone || !g.PreEnqueue(g.Context(), pod).IsSuccess() {
		return
	}
	cs, nodes, refused := g.aim(pod)
	for node := range g.on {
		_, closed := g.closed[node]
		if refused != "" || closed || len(g.on[node]) > 0 || nodes != nil && !slices.Contains(nodes, fmt.Sprint("n", node)) {
			continue
		}
		if status, _ := g.Permit(g.Context(), cs, pod, fmt.Sprint("n", node)); status.IsWait() {
			g.on[node] = []*corev1.Pod{pod}
			g.refresh(node)
			g.hold(pod)
		} else if status.IsSuccess() {
			g.put(pod, node)
		}
		g.settleHeld()
		return
	}
	g.PostFilter(g.Context(), cs, pod, nil)
	synctest.Wait()
	g.settleHeld()
}

// settleHeld binds the members that waited in Permit and may start, and takes their places from those that may not.
func (g *game) settleHeld() {
	g.mu.Lock()
	held := g.held
	g.held = slices.DeleteFunc(slices.Clone(held), func(h *heldPod) bool { return h.allowed || h.refused != "" })
	g.mu.Unlock()
	for _, h := range held {
		for node := range g.on {
			if !slices.Contains(g.on[node], h.pod) || !h.allowed && h.refused == "" {
				continue
			}
			if g.on[node] = nil; h.allowed {
				g.put(h.pod, node)
			} else {
				g.refresh(node)
			}
		}
	}
}

// judge fails if the gang has been half for too long, while a member waits and none still ends where one may be made again.
func (g *game) judge() {
	bound, waiting := len(g.live(true)), len(g.live(false))
	if bound == 0 || bound >= g.size || waiting == 0 || g.awaitsOwn() {
		g.half = 0
		return
	}
	if g.half += tick; g.half > longestHalf {
		g.Errorf("%d of %d members hold their GPUs for %s, with %d that wait", bound, g.size, g.half, waiting)
	}
}

// awaitsOwn reports whether a member that was lost still ends where one may be made again.
func (g *game) awaitsOwn() bool {
	group := g.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"})
	leaving := g.leavingMembers(gangOf(g.live(true)[0], group), group)
	return !partial.AwaitedUntil(leaving, g.isOnOpenNode, time.Now()).IsZero()
}

// clear ends a game.
func (g *game) clear() {
	for _, pod := range g.live(false) {
		g.must(g.pods.Delete(pod))
		g.podGone(pod)
	}
	for node := range g.on {
		delete(g.closed, node)
		for _, pod := range g.on[node] {
			g.exit(pod.UID)
		}
		g.refresh(node)
	}
	g.mu.Lock()
	g.held = nil
	g.mu.Unlock()
	time.Sleep(time.Minute)
	synctest.Wait()
	g.forget()
	g.client.ClearActions()
	if left := len(g.gangs.states); left > 0 {
		g.Errorf("%d gangs are remembered of which no pod is left", left)
	}
}
