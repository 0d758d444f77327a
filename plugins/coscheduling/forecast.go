package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// forecast is the state of the nodes as pods end.
type forecast struct {
	*nodeDomain
	// ends are the end times of the pods on each node, pods are those pods, and freed is what the first of them have released.
	ends  map[int][]time.Time
	pods  map[int][]fwk.PodInfo
	freed map[int][]resourceAmounts
	// left is how many more pods may be visited.
	left int
}

// resourceAmounts are amounts of the resources that the slots request.
type resourceAmounts map[corev1.ResourceName]int64

// podEnd is a pod and the time by which it is gone.
type podEnd struct {
	at time.Time
	fwk.PodInfo
}

// newForecast builds a forecast from the end times of pods; gone returns false for a pod that may run forever.
func newForecast(s *nodeDomain, now time.Time, effort int, gone func(*corev1.Pod, time.Time) (time.Time, bool)) *forecast {
	f := &forecast{nodeDomain: s, ends: map[int][]time.Time{}, pods: map[int][]fwk.PodInfo{}, freed: map[int][]resourceAmounts{}, left: effort}
	for node, info := range s.infos {
		var endings []podEnd
		for _, on := range info.GetPods() {
			if at, ends := gone(on.GetPod(), now); ends {
				endings = append(endings, podEnd{at, on})
			}
		}
		slices.SortStableFunc(endings, func(a, b podEnd) int { return a.at.Compare(b.at) })
		sum := resourceAmounts{}
		for _, e := range endings {
			sum = f.addReleased(sum, e.PodInfo)
			f.ends[node], f.pods[node], f.freed[node] = append(f.ends[node], e.at), append(f.pods[node], e.PodInfo), append(f.freed[node], sum)
		}
	}
	return f
}

// addReleased adds what a pod holds of the requested resources.
func (f *forecast) addReleased(before resourceAmounts, held fwk.PodInfo) resourceAmounts {
	after := make(resourceAmounts, len(before))
	for i := range f.slots {
		for _, ask := range f.slots[i].asks {
			after[ask.Resource] = before[ask.Resource] + cycle.HeldBy([]fwk.PodInfo{held}, ask.Resource)
		}
	}
	return after
}

// findEarliestStart returns when members fit first, and where. With a reservation it only considers the nodes of that.
func (f *forecast) findEarliestStart(waiting []podClass, standing []int, latest time.Time, within *backfill.StartReservation) (time.Time, *gangplan.Plan) {
	return backfill.EarliestStart(backfill.Problem{
		Problem: f.newProblem(waiting, standing, nil), Ends: f.ends, Latest: latest,
		RoomAfter: func(node, role int, beside []int, gone int) int {
			if within != nil {
				if _, kept := within.Places[f.infos[node].Node().Name]; !kept {
					return 0
				}
			}
			return f.capacityWhenGone(node, role, beside, gone)
		},
	})
}

// capacityWhenGone returns how many members of a class a node takes beside some others once the first ending pods are gone. Most nodes have too
// little room even then, which sums show, or no pod is left there; for the others the GPUs are checked.
func (f *forecast) capacityWhenGone(node, role int, beside []int, gone int) int {
	if gone == 0 {
		return f.freeCapacity(node, role, beside)
	}
	s, info := &f.slots[role], f.infos[node]
	for _, ask := range s.asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		if offered-taken+f.freed[node][gone-1][ask.Resource] < ask.Amount {
			return 0
		}
	}
	if beside == nil && gone == len(info.GetPods()) && len(f.kept[info.Node().Name]) == 0 && s.startReservations == nil && s.isOpen(info.Node(), s.accessTo(info.Node())) {
		return f.emptySlots[role][node]
	}
	if f.left -= 1 + gone; f.left < 0 {
		return 0
	}
	return f.capacityBeside(node, role, beside, nodeChange{gone: f.pods[node][:gone]})
}

// newReservation returns the reservation that a plan needs at a time.
func (f *forecast) newReservation(waiting []podClass, plan *gangplan.Plan, at time.Time) *backfill.StartReservation {
	promise := &backfill.StartReservation{At: at, Places: map[string]backfill.NodeReservation{}}
	if in := plan.Domain; in.Name != "" && !f.isAny() {
		promise.Domain = f.tree.Levels[in.Level].Name + " " + in.Name
	}
	for role := range waiting {
		for _, node := range plan.Places[role] {
			name := f.infos[node].Node().Name
			place, known := promise.Places[name]
			if !known {
				leaving := f.pods[node][:backfill.CountGone(f.ends[node], at)]
				place.Leaving = sets.New[types.UID](appendUIDs(nil, leaving)...)
			}
			place.Needs = append(place.Needs, f.slots[role].asks...)
			promise.Places[name] = place
		}
	}
	return promise
}

// earliestStartBy returns where members fit first by a time, nil for nowhere. It prefers the places of an existing reservation, as long as they start
// there by then.
func (f *forecast) earliestStartBy(waiting []podClass, standing []int, latest time.Time, before *backfill.StartReservation) *backfill.StartReservation {
	at, plan := f.findEarliestStart(waiting, standing, latest, nil)
	if plan == nil || f.left < 0 {
		return nil
	}
	if before != nil {
		again, same := f.findEarliestStart(waiting, standing, latest, before)
		if same != nil && f.left >= 0 && (!again.After(at) || !again.After(before.At)) {
			at, plan = again, same
		}
	}
	return f.newReservation(waiting, plan, at)
}
