package quota

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// settled is how long after the last of its pods was made a gang is known to get no more for now: Kubernetes makes hundreds a second.
	settled = 5 * time.Second
	// turnLasts is for how long a gang that was given its turn comes before others, though its quota has room and its pods are not made: then
	// something else than the quota refuses them.
	turnLasts = time.Minute
	// turnAgain is how long after its turn, which was in vain, it is in line again.
	turnAgain = 10 * time.Minute
)

// Gang is a gang as the quotas of its namespace see it: its pods are made one by one, and none starts before all are there.
type Gang struct {
	Job string
	// Rank is its priority, Created when its Job was made.
	Rank    int
	Created time.Time
	// Pod is what its pods are made from, Needs how many it needs to start, and Pods how many there are.
	Pod         *corev1.Pod
	Needs, Pods int64
	// Begun says that it has a pod on a node.
	Begun bool
	// Newest is when its newest pod was made, or its Job was started; Turn when its Job was last touched so that Kubernetes makes its pods now.
	Newest, Turn time.Time
	// Behind is the job for which it is suspended, "" if it is not.
	Behind string
}

// Turn is a change of a gang.
type Turn struct {
	Job string
	// Suspend has its pods given up in favor of job Behind; Resume has them made, Retry has them made now and not at Kubernetes' next attempt.
	Suspend, Resume, Retry bool
	Behind                 string
}

// Turns decides which gangs of a namespace have their pods made. Of those that wait for the same quota one holds a part of it at a time, the
// first by priority and age, or each would hold what the other lacks, for ever. A gang that never fits comes last. Each of the others is
// behind the one before it, so that of thousands few change when one starts. again is when to look again, zero where only a change can
// matter.
func Turns(quotas []corev1.ResourceQuota, gangs []Gang, now time.Time) (turns []Turn, again time.Duration) {
	var first, ahead []*standing
	names := map[string]bool{}
	for _, gang := range inLine(quotas, gangs) {
		waits, wait := gang.waits(quotas, now)
		again = earlier(again, wait)
		if !waits && wait == 0 {
			continue
		}
		gang.isNew = !waits
		before := lastSharing(first, gang)
		switch {
		case gang.isNew: // it may get all of its pods yet: until that is known none is resumed beside it
			first = append(first, gang)
		case before == nil:
			first = append(first, gang)
			turns = append(turns, gang.next(quotas, now)...)
			if gang.Behind == "" {
				again = earlier(again, settled)
			}
		case gang.Behind == "" && before.isNew && lastSharing(settledOf(first), gang) == nil:
		case !names[gang.Behind]:
			turns = append(turns, Turn{Job: gang.Job, Suspend: true, Behind: lastSharing(ahead, gang).Job})
		}
		ahead, names[gang.Job] = append(ahead, gang), true
	}
	return turns, again
}

// earlier is the shorter of two waits, of which 0 is none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// standing is a gang in line, and by which quotas it is bound. isNew says that Kubernetes may be making its pods now.
type standing struct {
	Gang
	bounds []int
	isNew  bool
}

// inLine orders gangs.
func inLine(quotas []corev1.ResourceQuota, gangs []Gang) []*standing {
	line, never := make([]*standing, len(gangs)), map[string]bool{}
	for i := range gangs {
		line[i] = &standing{Gang: gangs[i]}
		for q := range quotas {
			if limits(&quotas[q], gangs[i].Pod) {
				line[i].bounds = append(line[i].bounds, q)
			}
		}
		never[gangs[i].Job] = len(Never(Over(quotas, gangs[i].Pod, gangs[i].Needs))) > 0
	}
	slices.SortFunc(line, func(a, b *standing) int {
		return cmp.Or(compareBools(never[a.Job], never[b.Job]), -cmp.Compare(a.Rank, b.Rank), a.Created.Compare(b.Created), cmp.Compare(a.Job, b.Job))
	})
	return line
}

// lastSharing is the last of some gangs that a quota bounds which bounds another one, too; nil for none.
func lastSharing(line []*standing, with *standing) *standing {
	for _, other := range slices.Backward(line) {
		if slices.ContainsFunc(other.bounds, func(q int) bool { return slices.Contains(with.bounds, q) }) {
			return other
		}
	}
	return nil
}

// settledOf are those whose pods Kubernetes has tried to make.
func settledOf(line []*standing) []*standing {
	return slices.DeleteFunc(slices.Clone(line), func(gang *standing) bool { return gang.isNew })
}

// waits reports whether a gang waits for the rest of its pods, as far as that is for a quota; wait is when that will be known.
func (g *standing) waits(quotas []corev1.ResourceQuota, now time.Time) (waits bool, wait time.Duration) {
	switch {
	case g.Behind != "":
		return true, 0
	case g.Begun || g.Pods >= g.Needs:
		return false, 0
	case now.Sub(g.Newest) < settled:
		return false, settled - now.Sub(g.Newest)
	}
	// There was room for one when it had its turn, and it was not made since: what it does not hold it keeps from nobody for a while.
	inVain := !g.Turn.IsZero() && !g.Turn.Before(g.Newest) && now.Sub(g.Turn) >= turnLasts && now.Sub(g.Turn) < turnAgain
	if inVain && (g.Pods == 0 || len(Over(quotas, g.Pod, g.Needs-g.Pods)) == 0) {
		return false, 0
	}
	return len(g.bounds) > 0, 0
}

// next is what is to be done for the first in line: it is resumed, and its pods are made as soon as there is room for one. What was done in
// vain is done again after twice the time.
func (g *standing) next(quotas []corev1.ResourceQuota, now time.Time) []Turn {
	patience := min(max(settled, g.Turn.Sub(g.Newest)), turnLasts)
	switch {
	case g.Behind != "":
		return []Turn{{Job: g.Job, Resume: true}}
	case len(Over(quotas, g.Pod, 1)) == 0 && now.Sub(g.Turn) >= patience:
		return []Turn{{Job: g.Job, Retry: true}}
	}
	return nil
}

// limits reports whether a quota bounds anything that a pod asks.
func limits(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	if !Covers(quota, pod) {
		return false
	}
	for name := range quota.Spec.Hard {
		if asked := Asked(pod, name); asked.Sign() > 0 {
			return true
		}
	}
	return false
}
