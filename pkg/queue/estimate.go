package queue

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// wish is what an entry needs on nodes: so many whole GPUs for each pod.
type wish struct {
	perPod []int64
	// owner is the controller of the pods.
	owner types.UID
	pods  []*corev1.Pod
	// unknown wishes are not estimated: slots of shared GPUs.
	unknown bool
}

func (w *wish) add(pod *corev1.Pod, request gpu.Request) {
	w.owner = ownerOf(pod)
	w.pods = append(w.pods, pod)
	w.perPod = append(w.perPod, request.Whole)
	w.unknown = w.unknown || request.Shared > 0
}

// machine is a node as far as an estimate goes.
type machine struct {
	gpuType string
	total   int64
	free    int64
}

// release is GPUs that a running pod gives back, at the latest.
type release struct {
	at   time.Time
	node string
	gpus int64
}

// estimate fills in when entries start. It plays the lines forward: at each end of a job that has a time limit, the
// entries are tried in their order. What ends at no known time is never given back, so whatever depends on it stays
// unknown; an estimate is not made up. That a job also needs CPU and volumes is left out.
func estimate(entries []Entry, objects Objects, now time.Time) {
	limits := ends(objects.Jobs)
	for start := 0; start < len(entries); {
		end := start
		for end < len(entries) && entries[end].Pool == entries[start].Pool {
			end++
		}
		line := &line{entries: entries[start:end], machines: machinesOf(objects.Nodes, entries[start].Pool)}
		if len(objects.Nodes) > 0 {
			line.judge(newEmptied(objects.Nodes, entries[start].Pool))
		}
		line.occupy(objects.Pods, limits, now)
		line.play(limits)
		start = end
	}
}

// ends are when jobs that have a time limit end, at the latest. Kubernetes counts it from the creation of the pods,
// the time in line included.
func ends(jobs []batchv1.Job) map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for i := range jobs {
		seconds, began := jobs[i].Spec.ActiveDeadlineSeconds, jobs[i].Status.StartTime
		if seconds != nil && began != nil {
			out[jobs[i].UID] = began.Add(time.Duration(*seconds) * time.Second)
		}
	}
	return out
}

func machinesOf(nodes []corev1.Node, pool string) map[string]*machine {
	out := map[string]*machine{}
	for i := range nodes {
		if gpu.PoolOf(&nodes[i]) != pool || nodes[i].Spec.Unschedulable || !isReady(&nodes[i]) {
			continue
		}
		inventory, _ := gpu.InventoryOf(&nodes[i]) // what is unreadable was left out of it
		total := int64(len(inventory.Cards))
		out[nodes[i].Name] = &machine{gpuType: gpu.TypeOf(&nodes[i]), total: total, free: total}
	}
	return out
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// line is the line of one pool, played forward.
type line struct {
	entries  []Entry
	machines map[string]*machine
	releases []release
	now      time.Time
}

// judge notes which entries no node could ever hold.
func (l *line) judge(nodes *emptied) {
	for i := range l.entries {
		l.entries[i].Never = !nodes.canHold(l.entries[i].wish.pods)
	}
}

// occupy takes what running pods hold, and notes when those with a limit give it back.
func (l *line) occupy(pods []corev1.Pod, limits map[types.UID]time.Time, now time.Time) {
	l.now = now
	for i := range pods {
		pod := &pods[i]
		machine := l.machines[pod.Spec.NodeName]
		if machine == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		request, err := gpu.RequestOf(pod)
		if err != nil || request.Whole == 0 {
			continue
		}
		machine.free -= request.Whole
		if end, ok := limits[ownerOf(pod)]; ok {
			l.release(release{at: end, node: pod.Spec.NodeName, gpus: request.Whole})
		}
	}
}

// release notes what will be given back, in the order of time.
func (l *line) release(r release) {
	at, _ := slices.BinarySearchFunc(l.releases, r, func(a, b release) int { return a.at.Compare(b.at) })
	l.releases = slices.Insert(l.releases, at, r)
}

func ownerOf(pod *corev1.Pod) types.UID {
	for _, owner := range pod.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			return owner.UID
		}
	}
	return ""
}

// play tries the entries in their order at each moment that GPUs are given back. Nobody is let past one that does not
// fit: whether that happens is not known, and it would only make others later.
func (l *line) play(limits map[types.UID]time.Time) {
	next := 0
	for {
		for next < len(l.entries) && l.place(&l.entries[next], limits) {
			next++
		}
		if next == len(l.entries) || len(l.releases) == 0 {
			return
		}
		first := l.releases[0]
		l.releases = l.releases[1:]
		l.machines[first.node].free += first.gpus
		if first.at.After(l.now) {
			l.now = first.at
		}
	}
}

// place puts all pods of an entry on machines, or none, and notes when. One that never starts is passed over: its own
// limit has ended by then, or no machine is large enough.
func (l *line) place(entry *Entry, limits map[types.UID]time.Time) bool {
	end, limited := limits[entry.wish.owner]
	switch {
	case entry.Never:
		return true
	case entry.wish.unknown:
		return false
	case limited && !end.After(l.now), !l.everFits(entry):
		return true
	}
	taken := map[string]int64{}
	for _, need := range entry.wish.perPod {
		name := l.tightest(entry.GPUTypes, need, taken)
		if name == "" {
			return false
		}
		taken[name] += need
	}
	at := l.now
	entry.ETA = &at
	for name, gpus := range taken {
		l.machines[name].free -= gpus
		if limited {
			l.release(release{at: end, node: name, gpus: gpus})
		}
	}
	return true
}

// everFits reports whether each pod of an entry has a machine that would do if it were empty.
func (l *line) everFits(entry *Entry) bool {
	most := slices.Max(entry.wish.perPod)
	for _, machine := range l.machines {
		if machine.total >= most && isOfType(machine, entry.GPUTypes) {
			return true
		}
	}
	return false
}

func isOfType(m *machine, gpuTypes []string) bool {
	return len(gpuTypes) == 0 || slices.Contains(gpuTypes, m.gpuType)
}

// tightest returns the machine of the types, any if there are none, that has the fewest GPUs left beyond the need.
func (l *line) tightest(gpuTypes []string, need int64, taken map[string]int64) string {
	best, left := "", int64(0)
	for name, machine := range l.machines {
		free := machine.free - taken[name] - need
		if free < 0 || !isOfType(machine, gpuTypes) {
			continue
		}
		if best == "" || free < left || free == left && name < best {
			best, left = name, free
		}
	}
	return best
}
