package coscheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/test/fixture"
)

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
