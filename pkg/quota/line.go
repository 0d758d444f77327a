package quota

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// settleTime is how long after the creation of its last pod a gang is known to get no more for now: Kubernetes creates hundreds of pods per
	// second.
	settleTime = 5 * time.Second
	// turnDuration is how long a gang that has its turn comes before others although its quota has room and its pods are not created: then something
	// other than the quota refuses them.
	turnDuration = time.Minute
	// turnRetryDelay is how long after an unsuccessful turn a gang is queued again.
	turnRetryDelay = 10 * time.Minute
)

// Gang is a gang's Job from the point of view of the quotas of its namespace: its pods are created one by one, and none starts before all exist.
type Gang struct {
	Job string
	// Unit is the same for Jobs whose pods form one gang, "" if those of this Job are a gang.
	Unit string
	// Rank is its priority, and Created the creation time of its Job.
	Rank    int
	Created time.Time
	// Pod is the template of its pods, Needs how many it needs to start, and Pods how many exist.
	Pod         *corev1.Pod
	Needs, Pods int64
	// Begun says that one of its pods has a node. Short says that it needs more pods to start than are ever created.
	Begun, Short bool
	// Newest is when its newest pod was created, or its Job was started; Turn when its Job was last updated so that Kubernetes creates its pods now.
	Newest, Turn time.Time
	// Behind is the job for which it is suspended, "" if it is not.
	Behind string
}

// GangChange is a change of a gang.
type GangChange struct {
	Job string
	// Suspend gives up its pods in favor of job Behind; Resume has them created, and Retry has them created now instead of at Kubernetes' next
	// attempt.
	Suspend, Resume, Retry bool
	Behind                 string
}

// PlanGangs decides which gangs of a namespace have their pods created. Of the gangs that wait for the same quota, only one holds a part of it at a
// time, the first by priority and age. Otherwise each could hold what another lacks, for ever. A gang that never fits comes last, and after it one
// that never starts, as long as others wait. Each of the others is suspended behind the one before it, so that even of thousands only a few change
// when one starts. again is when to check again, zero if only a change can matter.
func PlanGangs(quotas []corev1.ResourceQuota, gangs []Gang, now time.Time) (turns []GangChange, again time.Duration) {
	var first, ahead []*queuedGang
	names := map[string]bool{}
	for _, gang := range queueGangs(quotas, gangs) {
		waits, wait := gang.isWaiting(quotas, now)
		again = shorterWait(again, wait)
		if !waits && wait == 0 {
			continue
		}
		gang.isNew = !waits
		before := lastSharing(first, gang)
		switch {
		case gang.Short && before == nil: // it takes nothing from others, so its pods may report what they lack
			turns = append(turns, gang.resumeParts()...)
			continue
		case gang.isNew: // it may still get all of its pods: until that is known, no other gang is resumed beside it
			first = append(first, gang)
		case before == nil:
			first = append(first, gang)
			turns = append(turns, gang.advanceFirst(quotas, now)...)
			if gang.Behind == "" {
				again = shorterWait(again, settleTime)
			}
		case gang.Behind == "" && before.isNew && lastSharing(settledGangs(first), gang) == nil:
		default:
			turns = append(turns, gang.suspendBehind(lastSharing(ahead, gang).Job, names)...)
		}
		ahead = append(ahead, gang)
		for i := range gang.parts {
			names[gang.parts[i].Job] = true
		}
	}
	return turns, again
}

// shorterWait returns the shorter of two waits; 0 means none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// queuedGang is a queued gang of one or more Jobs, with the quotas that bound it. isNew says that Kubernetes may still be creating its pods.
type queuedGang struct {
	// Gang is the gang as a whole. It has the name of its oldest Job, and is behind another one if all of its Jobs are.
	Gang
	parts  []Gang
	bounds []int
	isNew  bool
}

// groupUnits groups the Jobs whose pods form one gang.
func groupUnits(gangs []Gang) (units []*queuedGang) {
	of := map[string]*queuedGang{}
	for _, gang := range gangs {
		unit := of[gang.Unit]
		if unit == nil || gang.Unit == "" {
			unit = &queuedGang{Gang: gang}
			of[gang.Unit], units = unit, append(units, unit)
		} else {
			unit.addPart(gang)
		}
		unit.parts = append(unit.parts, gang)
	}
	return units
}

func (g *queuedGang) addPart(part Gang) {
	if cmp.Or(part.Created.Compare(g.Created), cmp.Compare(part.Job, g.Job)) < 0 {
		g.Job, g.Created = part.Job, part.Created
	}
	g.Rank = max(g.Rank, part.Rank)
	g.Needs, g.Pods = g.Needs+part.Needs, g.Pods+part.Pods
	g.Begun, g.Short = g.Begun || part.Begun, g.Short || part.Short
	g.Newest, g.Turn = latestTime(g.Newest, part.Newest), latestTime(g.Turn, part.Turn)
	if part.Behind == "" {
		g.Behind = ""
	}
}

func latestTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// partDemands returns a number of pods of each of its Jobs.
func (g *queuedGang) partDemands(of func(*Gang) int64) []Demand {
	out := make([]Demand, len(g.parts))
	for i := range g.parts {
		out[i] = Demand{g.parts[i].Pod, of(&g.parts[i])}
	}
	return out
}

// queueGangs sorts gangs into the queue.
func queueGangs(quotas []corev1.ResourceQuota, gangs []Gang) []*queuedGang {
	line, last := groupUnits(gangs), map[string]int{}
	for _, unit := range line {
		for q := range quotas {
			if slices.ContainsFunc(unit.parts, func(part Gang) bool { return boundsPod(&quotas[q], part.Pod) }) {
				unit.bounds = append(unit.bounds, q)
			}
		}
		switch {
		case unit.Short:
			last[unit.Job] = 2
		case len(FilterNeverFits(FindCombinedExcess(quotas, unit.partDemands(func(part *Gang) int64 { return part.Needs })))) > 0:
			last[unit.Job] = 1
		}
	}
	slices.SortFunc(line, func(a, b *queuedGang) int {
		return cmp.Or(cmp.Compare(last[a.Job], last[b.Job]), -cmp.Compare(a.Rank, b.Rank), a.Created.Compare(b.Created), cmp.Compare(a.Job, b.Job))
	})
	return line
}

// suspendBehind suspends its Jobs behind another one, or moves them behind it, unless they are already behind one of the given jobs.
func (g *queuedGang) suspendBehind(job string, of map[string]bool) (turns []GangChange) {
	for i := range g.parts {
		if part := &g.parts[i]; !of[part.Behind] {
			turns = append(turns, GangChange{Job: part.Job, Suspend: true, Behind: job})
		}
	}
	return turns
}

// lastSharing returns the last of some gangs that shares a quota with another one; nil for none.
func lastSharing(line []*queuedGang, with *queuedGang) *queuedGang {
	for _, other := range slices.Backward(line) {
		if slices.ContainsFunc(other.bounds, func(q int) bool { return slices.Contains(with.bounds, q) }) {
			return other
		}
	}
	return nil
}

// settledGangs returns the gangs whose pods Kubernetes has tried to create.
func settledGangs(line []*queuedGang) []*queuedGang {
	return slices.DeleteFunc(slices.Clone(line), func(gang *queuedGang) bool { return gang.isNew })
}

// isWaiting reports whether a gang waits for the rest of its pods because of a quota; wait is when that will be known.
func (g *queuedGang) isWaiting(quotas []corev1.ResourceQuota, now time.Time) (waits bool, wait time.Duration) {
	switch {
	case g.Behind != "":
		return true, 0
	case g.Begun || g.Pods >= g.Needs && !g.Short:
		return false, 0
	case now.Sub(g.Newest) < settleTime:
		return false, settleTime - now.Sub(g.Newest)
	}
	// There was room for a pod in its turn, but none was created: for a while it does not keep the unused part from others.
	inVain := !g.Turn.IsZero() && !g.Turn.Before(g.Newest) && now.Sub(g.Turn) >= turnDuration && now.Sub(g.Turn) < turnRetryDelay
	if inVain && (g.Pods == 0 || len(FindCombinedExcess(quotas, g.partDemands((*Gang).missingPods))) == 0) {
		return false, 0
	}
	return len(g.bounds) > 0, 0
}

// missingPods returns how many of its pods do not exist yet.
func (g *Gang) missingPods() int64 { return max(0, g.Needs-g.Pods) }

// advanceFirst returns the changes for the first gang in the queue: it is resumed, and its pods are created as soon as there is room for one. An
// unsuccessful attempt is repeated after twice the time.
func (g *queuedGang) advanceFirst(quotas []corev1.ResourceQuota, now time.Time) (turns []GangChange) {
	if turns = g.resumeParts(); len(turns) > 0 {
		return turns
	}
	for i := range g.parts {
		part := &g.parts[i]
		patience := min(max(settleTime, part.Turn.Sub(part.Newest)), turnDuration)
		if part.missingPods() > 0 && len(FindExcess(quotas, part.Pod, 1)) == 0 && now.Sub(part.Turn) >= patience {
			turns = append(turns, GangChange{Job: part.Job, Retry: true})
		}
	}
	return turns
}

// resumeParts has its pods created again.
func (g *queuedGang) resumeParts() (turns []GangChange) {
	for i := range g.parts {
		if g.parts[i].Behind != "" {
			turns = append(turns, GangChange{Job: g.parts[i].Job, Resume: true})
		}
	}
	return turns
}

// boundsPod reports whether a quota bounds any resource that a pod requests.
func boundsPod(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	if !CountsPod(quota, pod) {
		return false
	}
	for name := range quota.Spec.Hard {
		if asked := PodAmount(pod, name); asked.Sign() > 0 {
			return true
		}
	}
	return false
}
