package phase

import (
	"fmt"
	"testing"
	"time"
)

// TestWhatIsSearchedInVainTakesAPartOfTheTime: many gangs of a namespace search all the while. Each of them has its turn, a new one has it
// soon, and another namespace does not wait.
func TestWhatIsSearchedInVainTakesAPartOfTheTime(t *testing.T) {
	const looked, gangs = 10_000, 50
	cost, now := looked*stepTime, noon
	of := func(namespace string, i int) Searcher { return Searcher{Namespace: namespace, Name: fmt.Sprint(i)} }
	var all SearchTurns
	searches := map[Searcher]int{}
	try := func(g Searcher) (found bool) {
		if all.NextSearchTime(g, now).After(now) {
			return false
		}
		searches[g]++
		all.BackOff(g, looked, now)
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
		all.ForgetSearcher(of("a", i), now)
	}
	if !all.NextSearchTime(of("a", gangs+1), now).After(now) {
		t.Error("one that comes when all others are gone may search at once: who makes pods and deletes them has no end of that")
	}
	now = now.Add(searchTimeShare * cost)
	all.ForgetSearcher(of("a", gangs+1), now)
	all.ForgetSearcher(of("b", 0), now.Add(time.Hour))
	if len(all.byNamespace) > 0 {
		t.Errorf("%d namespaces are kept", len(all.byNamespace))
	}
}
