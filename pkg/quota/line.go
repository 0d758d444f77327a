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
// first by priority and age, or each would hold what the other lacks, for ever. A gang that never fits comes last. again is when to
// look again, zero where only a change can matter.
func Turns(quotas []corev1.ResourceQuota, gangs []Gang, now time.Time) (turns []Turn, again time.Duration) {
	line := slices.Clone(gangs)
	never := map[string]bool{}
	for i := range line {
		never[line[i].Job] = len(Never(Over(quotas, line[i].Pod, line[i].Needs))) > 0
	}
	slices.SortFunc(line, func(a, b Gang) int {
		return cmp.Or(compareBools(never[a.Job], never[b.Job]), -cmp.Compare(a.Rank, b.Rank), a.Created.Compare(b.Created), cmp.Compare(a.Job, b.Job))
	})
	var first []*Gang
	for i := range line {
		gang := &line[i]
		waits, wait := gang.waits(quotas, now)
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
		if !waits {
			continue
		}
		before := slices.IndexFunc(first, func(other *Gang) bool { return sharesQuota(quotas, gang, other) })
		switch {
		case before >= 0 && gang.Behind != first[before].Job:
			turns = append(turns, Turn{Job: gang.Job, Suspend: true, Behind: first[before].Job})
		case before >= 0:
		default:
			first = append(first, gang)
			turns = append(turns, gang.next(quotas, now)...)
			if gang.Behind == "" {
				again = cmp.Or(min(again, settled), settled)
			}
		}
	}
	return turns, again
}

// waits reports whether a gang waits for the rest of its pods, as far as that is for a quota; wait is when that will be known.
func (g *Gang) waits(quotas []corev1.ResourceQuota, now time.Time) (waits bool, wait time.Duration) {
	switch {
	case g.Behind != "":
		return true, 0
	case g.Begun || g.Pods >= g.Needs:
		return false, 0
	case now.Sub(g.Newest) < settled:
		return false, settled - now.Sub(g.Newest)
	}
	if len(Over(quotas, g.Pod, g.Needs-g.Pods)) > 0 {
		return true, 0
	}
	return isBound(quotas, g.Pod) && (g.Turn.Before(g.Newest) || now.Sub(g.Turn) < turnLasts), 0
}

// next is what is to be done for the first in line: it is resumed, and its pods are made as soon as there is room for one.
func (g *Gang) next(quotas []corev1.ResourceQuota, now time.Time) []Turn {
	switch {
	case g.Behind != "":
		return []Turn{{Job: g.Job, Resume: true}}
	case len(Over(quotas, g.Pod, 1)) == 0 && now.Sub(g.Turn) >= settled:
		return []Turn{{Job: g.Job, Retry: true}}
	}
	return nil
}

// isBound reports whether a quota bounds anything that a pod asks.
func isBound(quotas []corev1.ResourceQuota, pod *corev1.Pod) bool {
	return slices.ContainsFunc(quotas, func(q corev1.ResourceQuota) bool { return limits(&q, pod) })
}

// sharesQuota reports whether a quota bounds what the pods of both gangs ask.
func sharesQuota(quotas []corev1.ResourceQuota, a, b *Gang) bool {
	return slices.ContainsFunc(quotas, func(q corev1.ResourceQuota) bool { return limits(&q, a.Pod) && limits(&q, b.Pod) })
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
