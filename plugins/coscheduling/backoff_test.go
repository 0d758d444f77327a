package coscheduling

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestWhatIsSearchedInVainTakesAPartOfTheTime: many gangs of a namespace search all the while. Each of them has its turn, a new one has it
// soon, and another namespace does not wait.
func TestWhatIsSearchedInVainTakesAPartOfTheTime(t *testing.T) {
	const looked, gangs = 10_000, 50
	cost, now := looked*stepTime, noon
	of := func(namespace string, i int) gang {
		return gang{group: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}}
	}
	var all searchBackoffs
	searches := map[gang]int{}
	try := func(g gang) (found bool) {
		if all.nextSearchTime(g, now).After(now) {
			return false
		}
		searches[g]++
		all.backOffSearch(g, looked, now)
		return true
	}
	run := func(until time.Duration) {
		for end := now.Add(until); now.Before(end); now = now.Add(cost) {
			for i := range gangs {
				try(of("a", i))
			}
		}
	}
	total := 10 * gangs * searchTimeShare * cost
	run(total)
	sum := 0
	for i := range gangs {
		n := searches[of("a", i)]
		if sum += n; n < 5 || n > 20 {
			t.Errorf("gang %d has searched %d times, want about as often as the others", i, n)
		}
	}
	if spent := time.Duration(sum) * cost; spent > 2*total/searchTimeShare {
		t.Errorf("of %s %s were spent", total, spent)
	}
	if !try(of("b", 0)) {
		t.Error("another namespace waits")
	}
	fresh, since := of("a", gangs), now
	for !try(fresh) {
		run(cost)
	}
	if waited := now.Sub(since); waited > 2*searchTimeShare*cost {
		t.Errorf("a new one waits for %s", waited)
	}
	for i := range gangs + 1 {
		all.forgetGang(of("a", i), now)
	}
	if !all.nextSearchTime(of("a", gangs+1), now).After(now) {
		t.Error("one that comes when all others are gone may search at once: who makes pods and deletes them has no end of that")
	}
	now = now.Add(searchTimeShare * cost)
	all.forgetGang(of("a", gangs+1), now)
	all.forgetGang(of("b", 0), now.Add(time.Hour))
	if len(all.byNamespace) > 0 {
		t.Errorf("%d namespaces are kept", len(all.byNamespace))
	}
}

// TestWhoWaitsForItsTurnIsTriedThen, whatever happens in the cluster or does not.
func TestWhoWaitsForItsTurnIsTriedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1200)
		l.answers()
		for node := range l.infos {
			l.running(node, fmt.Sprint("on", node), 1, ofPriority(-1), func(pod *corev1.Pod) { pod.Labels["app"] = "all" })
		}
		l.protects("ns", "all")
		l.share(quotaOf("mine", 1<<20, 0))
		l.quotas.UseManualUpdates() // all would be counted anew for each question
		try := func(name string) (evicted []string) {
			_, evicted = l.postFilter(framework.NewCycleState(), l.alone("mine", name))
			return evicted
		}
		try("first")
		try("second")
		l.protects("ns") // they may leave now
		if l.forget(); len(try("second")) > 0 || len(l.tried()) > 0 {
			t.Fatalf("the second does not wait for its turn, and %v are tried", l.tried())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := l.tried(); len(got) != 1 || got[0] != "mine/second" {
			t.Errorf("%v are tried, want the one that waits for its turn", got)
		}
		if got := try("second"); len(got) != 1 {
			t.Errorf("%v leave for it then", got)
		}
		time.Sleep(time.Hour)
	})
}
