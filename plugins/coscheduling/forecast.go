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
	*site
	// ends are the end times of the pods on each node, pods are those pods, and freed is what the first of them have released.
	ends  map[int][]time.Time
	pods  map[int][]fwk.PodInfo
	freed map[int][]resources
	// left is how many more pods may be visited.
	left int
}

// resources are amounts of the resources that the slots request.
type resources map[corev1.ResourceName]int64

// ending is a pod and the time by which it is gone.
type ending struct {
	at time.Time
	fwk.PodInfo
}

// forecastOf builds a forecast from the end times of pods; gone returns false for a pod that may run forever.
func forecastOf(s *site, now time.Time, effort int, gone func(*corev1.Pod, time.Time) (time.Time, bool)) *forecast {
	f := &forecast{site: s, ends: map[int][]time.Time{}, pods: map[int][]fwk.PodInfo{}, freed: map[int][]resources{}, left: effort}
	for node, info := range s.infos {
		var endings []ending
		for _, on := range info.GetPods() {
			if at, ends := gone(on.GetPod(), now); ends {
				endings = append(endings, ending{at, on})
			}
		}
		slices.SortStableFunc(endings, func(a, b ending) int { return a.at.Compare(b.at) })
		sum := resources{}
		for _, e := range endings {
			sum = f.with(sum, e.PodInfo)
			f.ends[node], f.pods[node], f.freed[node] = append(f.ends[node], e.at), append(f.pods[node], e.PodInfo), append(f.freed[node], sum)
		}
	}
	return f
}

// with adds what a pod holds of the requested resources.
func (f *forecast) with(before resources, held fwk.PodInfo) resources {
	after := make(resources, len(before))
	for i := range f.seats {
		for _, ask := range f.seats[i].asks {
			after[ask.Resource] = before[ask.Resource] + cycle.HeldBy([]fwk.PodInfo{held}, ask.Resource)
		}
	}
	return after
}

// search returns when members fit first, and where. With a reservation it only considers the nodes of that.
func (f *forecast) search(waiting []kind, standing []int, latest time.Time, within *backfill.Promise) (time.Time, *gangplan.Plan) {
	return backfill.Earliest(backfill.Problem{
		Problem: f.problem(waiting, standing, nil), Ends: f.ends, Latest: latest,
		RoomAfter: func(node, role int, beside []int, gone int) int {
			if within != nil {
				if _, kept := within.Places[f.infos[node].Node().Name]; !kept {
					return 0
				}
			}
			return f.roomAfter(node, role, beside, gone)
		},
	})
}

// roomAfter returns how many members of a class a node takes beside some others once the first ending pods are gone. Most nodes have too
// little room even then, which sums show, or no pod is left there; for the others the GPUs are checked.
func (f *forecast) roomAfter(node, role int, beside []int, gone int) int {
	if gone == 0 {
		return f.free(node, role, beside)
	}
	s, info := &f.seats[role], f.infos[node]
	for _, ask := range s.asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		if offered-taken+f.freed[node][gone-1][ask.Resource] < ask.Amount {
			return 0
		}
	}
	if beside == nil && gone == len(info.GetPods()) && len(f.kept[info.Node().Name]) == 0 && s.promised == nil && s.isOpen(info.Node(), s.accessTo(info.Node())) {
		return f.then[role][node]
	}
	if f.left -= 1 + gone; f.left < 0 {
		return 0
	}
	return f.room(node, role, beside, change{gone: f.pods[node][:gone]})
}

// promised returns the reservation that a plan needs at a time.
func (f *forecast) promised(waiting []kind, plan *gangplan.Plan, at time.Time) *backfill.Promise {
	promise := &backfill.Promise{At: at, Places: map[string]backfill.Place{}}
	if in := plan.Domain; in.Name != "" && !f.isAny() {
		promise.Domain = f.tree.Levels[in.Level].Name + " " + in.Name
	}
	for role := range waiting {
		for _, node := range plan.Places[role] {
			name := f.infos[node].Node().Name
			place, known := promise.Places[name]
			if !known {
				leaving := f.pods[node][:backfill.Gone(f.ends[node], at)]
				place.Leaving = sets.New[types.UID](appendUIDs(nil, leaving)...)
			}
			place.Needs = append(place.Needs, f.seats[role].asks...)
			promise.Places[name] = place
		}
	}
	return promise
}
