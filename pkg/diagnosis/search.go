package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

const second = time.Second

// search looks for a place for one pod, and records what blocks it.
type search struct {
	facts      *Facts
	request    *fit.Request
	topologies gpu.Topologies // of all nodes
	// holders are the pods on each node.
	holders map[string][]*corev1.Pod
	// judged are the nodes of its pool and type.
	judged []judgedNode
	// offers are the other pools that could take it, nil until first requested.
	offers []offer
	// protectedUntil is the earliest time at which the min-runtime of a protected pod ends, the zero time if there is none.
	protectedUntil time.Time
}

// newSearch returns a search for a node for a pod. The error names the part of the request that cannot be read.
func newSearch(f *Facts, pod *corev1.Pod) (*search, error) {
	request, err := fit.RequestOf(pod)
	if err != nil {
		return nil, err
	}
	request.Closed = nodesClosedTo(f, pod)
	return &search{facts: f, request: request, holders: fit.ByNode(f.Cluster.Pods)}, nil
}

// explainNodes lists what blocks the nodes.
func (s *search) explainNodes(verdict string) ([]Finding, []NearMiss) {
	if out := s.judgeNodes(); len(out) > 0 {
		return out, nil
	}
	return s.summarizeBlockers(verdict), s.nearMisses()
}

// judgeNodes judges the nodes of the pod's pool and type. If there are none, it returns why.
func (s *search) judgeNodes() []Finding {
	inPool := slices.DeleteFunc(slices.Clone(s.facts.Cluster.Nodes), func(node corev1.Node) bool {
		return s.request.Pool != "" && gpu.PoolOf(&node) != s.request.Pool
	})
	if len(inPool) == 0 {
		return s.explainWrongPool()
	}
	s.judged = nil
	for i := range inPool {
		if node := &inPool[i]; s.request.Types.MatchesNode(node) {
			s.judged = append(s.judged, s.judgeNode(node, s.holders[node.Name]))
		}
	}
	if len(s.judged) == 0 {
		out := s.explainTypeNotInPool(inPool)
		meant := ""
		if out.Cause == reason.TypeMisspelt {
			meant = out.Steps[0].Value
		}
		return append(singleFinding(out), s.explainBehindType(inPool, meant)...)
	}
	return nil
}

// buildInventory summarizes the nodes, to look at other pools.
func (s *search) buildInventory() inventory.Cluster {
	return inventory.Build(&s.facts.Cluster)
}

// poolText names the pool for use in a sentence.
func (s *search) poolText() phrase.Text {
	switch s.request.Pool {
	case "":
		return phrase.Textf("the cluster")
	case names.DefaultPool:
		return phrase.Textf("pool default (the nodes without a label %s)", names.LabelPool)
	}
	return phrase.Textf("pool %s", s.request.Pool)
}

// moveCommand is the command that moves the job.
func (s *search) moveCommand(pool string) string {
	return fmt.Sprintf("gpuctl move %s -n %s --pool %s", s.facts.Job.Name, s.facts.Job.Namespace, pool)
}

// moveToPoolStep is the step to move to another pool, "" if the user has to choose: a command for an existing job, a field of the YAML for a new one. why names
// the pool.
func (s *search) moveToPoolStep(pool string, why phrase.Text) Step {
	if s.facts.Job.Kind == KindPod {
		return s.podInto(pool, why)
	}
	if s.facts.Simulated {
		return Step{Action: reason.SetField, Field: reason.FieldPool, Value: pool, Message: why.Addf(" Write it in %s", reason.FieldPool)}
	}
	move := s.moveCommand(cmp.Or(pool, "POOL"))
	return Step{Action: reason.Move, Value: pool, Command: move, Message: why.Addf(" Move the job there: %s", move)}
}

// podInto is the step into another pool for a pod that belongs to no job.
func (s *search) podInto(pool string, why phrase.Text) Step {
	pool = cmp.Or(pool, "POOL")
	return Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "spec.nodeSelector", Value: names.LabelPool + "=" + pool,
		Message: why.Addf(" Give the pod the node selector %s: %s", names.LabelPool, pool)}
}

// explainTypeNotInPool explains that no node of the pool has a type that the pod accepts.
func (s *search) explainTypeNotInPool(inPool []corev1.Node) Finding {
	asked := s.request.Types.AcceptedNames()
	here := nodeTypes(inPool)
	out := Finding{Nodes: len(inPool), Message: phrase.Textf("no node of %s has GPU type %s", s.poolText(), joinAlternatives(asked))}
	for _, gpuType := range asked {
		if near := nearestType(gpuType, here); near != "" {
			out.Cause = reason.TypeMisspelt
			out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldType, Value: near, Message: phrase.Textf(
				"did you mean %s? Write it in %s; types are matched exactly, also in upper and lower case", near, reason.FieldType)})
		}
	}
	elsewhere := s.elsewherePools(false)
	if len(elsewhere) > 0 {
		out.Cause = cmp.Or(out.Cause, reason.TypeInOtherPool)
		out.Steps = append(out.Steps, elsewhere...)
	}
	out.Message = out.Message.Add(s.nodesHavingIt(func(node *corev1.Node) bool { return s.isOtherPool(node) }))
	if selector, ok := s.explainVendorSelector(inPool); ok {
		out.Steps = append(out.Steps, selector)
	}
	if len(here) > 0 {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldType, Value: here[0],
			Message: phrase.Textf("ask for a type that %s has, in %s: %s", s.poolText(), reason.FieldType, shortList(here))})
	}
	if len(out.Steps) == 0 {
		out.Steps = []Step{{Action: reason.AddNodes, Message: phrase.Textf("ask the administrators: the nodes there have no GPU type at all")}}
	}
	out.Cause = cmp.Or(out.Cause, reason.NoSuchType)
	return out
}

// offer is what another pool has for the pod.
type offer struct {
	pool string
	// able is the number of its nodes that would take the pod when empty, ready of those that would now.
	able, ready int
	free, total int64
	// shares is true if the free units are slots on shared GPUs.
	shares bool
}

func offerTexts(offers []offer) []phrase.Text {
	out := make([]phrase.Text, len(offers))
	for i, o := range offers {
		what := phrase.Textf("such GPUs")
		if o.shares {
			what = phrase.Textf("slots on shared GPUs")
		}
		out[i] = phrase.Textf("%s (%d of %d %s free)", o.pool, o.free, o.total, what)
	}
	return out
}

// elsewherePools is the step into another pool that takes the pod now, or could when empty. A job with running pods is not moved: it would start
// over.
func (s *search) elsewherePools(now bool) []Step {
	if s.facts.holdsNodes() {
		return nil
	}
	able := s.otherPools(now)
	if len(able) == 0 {
		return nil
	}
	best := able[0].pool
	return []Step{s.moveToPoolStep(best, phrase.Textf("use a pool that has it: %s.", listSome(offerTexts(able))))}
}

// otherPools lists the other pools with nodes that could take the pod, those that take it now first. It omits pools that take fewer pods than the job
// has.
func (s *search) otherPools(now bool) []offer {
	if s.offers == nil {
		s.offers = s.lookElsewhere()
	}
	return slices.DeleteFunc(slices.Clone(s.offers), func(o offer) bool { return now && o.ready == 0 })
}

func (s *search) lookElsewhere() []offer {
	offers := map[string]*offer{}
	cluster := s.buildInventory()
	for i := range s.facts.Cluster.Nodes {
		node := &s.facts.Cluster.Nodes[i]
		name := gpu.PoolOf(node)
		if !s.isOtherPool(node) || !s.isPoolAllowed(name) || !s.neverBlocked(node) {
			continue
		}
		if offers[name] == nil {
			offers[name] = &offer{pool: name}
		}
		o := offers[name]
		o.able++
		request := s.requestInPoolOfNode(node)
		if obstacles, _ := request.Obstacles(fit.NewNode(node, s.holders[node.Name], &s.topologies)); len(obstacles) == 0 {
			o.ready++
		}
		if row, ok := cluster.FindNode(node.Name); ok {
			gpus := row.GPUs
			if row.SharedGPUs != nil && request.Demand.Shared > 0 {
				gpus, o.shares = *row.SharedGPUs, true
			}
			o.free, o.total = o.free+gpus.Free, o.total+gpus.Allocatable
		}
	}
	out := []offer{}
	for _, o := range offers {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b offer) int {
		return cmp.Or(-cmp.Compare(min(a.ready, 1), min(b.ready, 1)), -cmp.Compare(a.free, b.free), cmp.Compare(a.pool, b.pool))
	})
	if startsTogether(s.facts, s.request.Pod) {
		all := s.poolsForAll(max(1, int(s.facts.Job.Desired)))
		out = slices.DeleteFunc(out, func(o offer) bool { return !slices.Contains(all, o.pool) })
	}
	return out
}

// isOtherPool reports whether a node is in another pool than the pod's, and of a type that the pod accepts.
func (s *search) isOtherPool(node *corev1.Node) bool {
	return gpu.PoolOf(node) != s.request.Pool && s.request.Types.MatchesNode(node)
}

// isPoolAllowed reports whether a pool is for the pod.
func (s *search) isPoolAllowed(pool string) bool {
	return len(PoolDenial(s.facts.Cluster.GPUPools, pool, s.request.Pod.Namespace, s.request.Pod.Spec.PriorityClassName)) == 0
}

// neverBlocked reports whether a node would take the pod if the node were empty and in the pod's pool.
func (s *search) neverBlocked(node *corev1.Node) bool {
	obstacles, _ := s.requestInPoolOfNode(node).Obstacles(fit.NewNode(node, nil, &s.topologies))
	return len(obstacles) == 0
}

// requestInPoolOfNode is the pod's request in the pool of a node: moving a job there changes its node selection, and whether it gets shares of GPUs or whole ones.
func (s *search) requestInPoolOfNode(node *corev1.Node) *fit.Request {
	pod := s.request.Pod.DeepCopy()
	delete(pod.Spec.NodeSelector, names.LabelPool)
	removePoolTerms(pod.Spec.Affinity)
	if pod.Annotations[names.AnnotationGPUShare] != "" {
		shares := node.Labels[names.LabelSharing] == names.SharingMemory
		for i := range pod.Spec.Containers {
			convertGPURequest(pod.Spec.Containers[i].Resources.Requests, shares)
			convertGPURequest(pod.Spec.Containers[i].Resources.Limits, shares)
		}
	}
	request, err := fit.RequestOf(pod)
	if err != nil {
		return s.request
	}
	request.Closed = s.request.Closed
	return request
}

// removePoolTerms removes pool terms from an affinity, such as those that keep jobs of the default pool off all others.
func removePoolTerms(affinity *corev1.Affinity) {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = slices.DeleteFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return e.Key == names.LabelPool })
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 { // a term without conditions would match no node, but it has to match all
			affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			return
		}
	}
}

// convertGPURequest changes a request from whole GPUs to shares, or the reverse.
func convertGPURequest(list corev1.ResourceList, shares bool) {
	from, to := corev1.ResourceName(names.ResourceSharedGPU), corev1.ResourceName(names.ResourceGPU)
	if shares {
		from, to = to, from
	}
	if count, ok := list[from]; ok {
		delete(list, from)
		list[to] = count
	}
}

func nodeTypes(nodes []corev1.Node) []string {
	var out []string
	for i := range nodes {
		if gpuType := gpu.TypeOf(&nodes[i]); gpuType != "" {
			out = append(out, gpuType)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxListed is how many pools, types or nodes a sentence names.
const maxListed = 5

func shortenList(texts []phrase.Text) []phrase.Text {
	if rest := len(texts) - maxListed; rest > 0 {
		return append(slices.Clone(texts[:maxListed]), phrase.Textf("and %d more", rest))
	}
	return texts
}

// joinAlternatives names alternatives.
func joinAlternatives(words []string) phrase.Text {
	texts := make([]phrase.Text, len(words))
	for i, word := range words {
		texts[i] = phrase.Quote(word)
	}
	return phrase.Join(texts, phrase.Textf(" or "))
}

// sameModel returns the known GPU types that a type could mean, which are never those of another model.
func sameModel(asked string, known []string) []string {
	return slices.DeleteFunc(slices.Clone(known), func(t string) bool { return !gpu.SameModel(asked, t) })
}

// nearestType is the node type probably meant by an unknown one, "" if none is: one with a similar spelling, or else the name of the same model with
// the fewest other words, as T4 is meant for Tesla-T4.
func nearestType(asked string, known []string) string {
	same := sameModel(asked, known)
	if near := spelling.Nearest(asked, same); near != "" {
		return near
	}
	contained := slices.DeleteFunc(same, func(t string) bool { return !gpu.NamesModelOf(asked, t) })
	slices.SortFunc(contained, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if len(contained) == 0 {
		return ""
	}
	return contained[0]
}
