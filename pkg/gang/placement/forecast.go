package placement

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
	*NodeDomain
	// ends are the end times of the pods on each node, pods are those pods, and freed is what the first of them have released.
	ends  map[int][]time.Time
	pods  map[int][]fwk.PodInfo
	freed map[int][]resourceAmounts
	// Left is how many more pods may be visited.
	Left int
}

// resourceAmounts are amounts of the resources that the slots request.
type resourceAmounts map[corev1.ResourceName]int64

// podEnd is a pod and the time by which it is gone.
type podEnd struct {
	at time.Time
	fwk.PodInfo
}

// NewForecast builds a forecast from the end times of pods; gone returns false for a pod that may run forever.
func NewForecast(s *NodeDomain, now time.Time, effort int, gone func(*corev1.Pod, time.Time) (time.Time, bool)) *forecast {
	f := &forecast{NodeDomain: s, ends: map[int][]time.Time{}, pods: map[int][]fwk.PodInfo{}, freed: map[int][]resourceAmounts{}, Left: effort}
	for node, info := range s.Infos {
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
	for i := range f.Slots {
		for _, ask := range f.Slots[i].Asks {
			after[ask.Resource] = before[ask.Resource] + cycle.HeldBy([]fwk.PodInfo{held}, ask.Resource)
		}
	}
	return after
}

// findEarliestStart returns when members fit first, and where. With a reservation it only considers the nodes of that.
func (f *forecast) findEarliestStart(waiting []PodClass, standing []int, latest time.Time, within *backfill.StartReservation) (time.Time, *gangplan.Plan) {
	return backfill.EarliestStart(backfill.Problem{
		Problem: f.NewProblem(waiting, standing, nil), Ends: f.ends, Latest: latest,
		RoomAfter: func(node, role int, beside []int, gone int) int {
			if within != nil {
				if _, kept := within.Places[f.Infos[node].Node().Name]; !kept {
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
		return f.FreeCapacity(node, role, beside)
	}
	s, info := &f.Slots[role], f.Infos[node]
	for _, ask := range s.Asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		if offered-taken+f.freed[node][gone-1][ask.Resource] < ask.Amount {
			return 0
		}
	}
	if beside == nil && gone == len(info.GetPods()) && len(f.Kept[info.Node().Name]) == 0 && s.startReservations == nil && s.isOpen(info.Node(), s.accessTo(info.Node())) {
		return f.EmptySlots[role][node]
	}
	if f.Left -= 1 + gone; f.Left < 0 {
		return 0
	}
	return f.CapacityBeside(node, role, beside, NodeChange{Gone: f.pods[node][:gone]})
}

// newReservation returns the reservation that a plan needs at a time.
func (f *forecast) newReservation(waiting []PodClass, plan *gangplan.Plan, at time.Time) *backfill.StartReservation {
	promise := &backfill.StartReservation{At: at, Places: map[string]backfill.NodeReservation{}}
	if in := plan.Domain; in.Name != "" && !f.IsAny() {
		promise.Domain = f.Tree.Levels[in.Level].Name + " " + in.Name
	}
	for role := range waiting {
		for _, node := range plan.Places[role] {
			name := f.Infos[node].Node().Name
			place, known := promise.Places[name]
			if !known {
				leaving := f.pods[node][:backfill.CountGone(f.ends[node], at)]
				place.Leaving = sets.New[types.UID](appendUIDs(nil, leaving)...)
			}
			place.Needs = append(place.Needs, f.Slots[role].Asks...)
			promise.Places[name] = place
		}
	}
	return promise
}

// EarliestStartBy returns where members fit first by a time, nil for nowhere. It prefers the places of an existing reservation, as long as they start
// there by then.
func (f *forecast) EarliestStartBy(waiting []PodClass, standing []int, latest time.Time, before *backfill.StartReservation) *backfill.StartReservation {
	at, plan := f.findEarliestStart(waiting, standing, latest, nil)
	if plan == nil || f.Left < 0 {
		return nil
	}
	if before != nil {
		again, same := f.findEarliestStart(waiting, standing, latest, before)
		if same != nil && f.Left >= 0 && (!again.After(at) || !again.After(before.At)) {
			at, plan = again, same
		}
	}
	return f.newReservation(waiting, plan, at)
}
