package gpufilter

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
)

// allNodes stands for all nodes, the candidates of a pod that neither requests GPUs nor names a pool or type.
var allNodes = &shortlist.Candidates{Key: "*"}

// PreFilter parses the pod once and returns the nodes of its pool and type. It skips pods that neither request GPUs nor name a pool or type,
// unless nodes are reserved or there is a short list, and rejects a pod with a malformed request.
func (p *Plugin) PreFilter(_ context.Context, cs fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	demand, err := demandOf(pod)
	if err != nil {
		podRejections.WithLabelValues(labelMalformed).Inc()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	s := &state{demand: demand, reservations: p.reservations.ClosedFor(pod), startReservations: p.startReservations.ReservedFrom(pod)}
	cs.Write(stateKey, s)
	if demand.isEmpty() {
		first, err := p.firstCandidates(cs, s, allNodes, nodes)
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		switch {
		case len(first.Names) > 0:
		case s.reservations != nil || s.startReservations != nil:
			return nil, nil // all nodes
		default:
			return nil, fwk.NewStatus(fwk.Skip)
		}
		return &fwk.PreFilterResult{NodeNames: first.Names}, nil
	}
	types := p.rules.typesFor(demand)
	candidates, err := p.cache.candidatesFor(demand.Pool, types)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	candidateNodes.Observe(float64(candidates.Names.Len()))
	if candidates.Names.Len() == 0 {
		podRejections.WithLabelValues(labelNoCandidates).Inc()
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.nodes.explainNone(demand.Pool, types))
	}
	switch first, err := p.firstCandidates(cs, s, candidates, nodes); {
	case err != nil:
		return nil, fwk.AsStatus(err)
	case len(first.Names) > 0:
		return &fwk.PreFilterResult{NodeNames: first.Names}, nil
	case first.InOrder != nil: // all of them candidates
		return nil, nil
	}
	if candidates.Names.Len() >= len(nodes) {
		return nil, nil // all nodes: spare the scheduler the lookups by name
	}
	return &fwk.PreFilterResult{NodeNames: candidates.Names}, nil // the scheduler does not change it
}

// firstCandidates returns the candidates to try first, if the scheduler tries the others when necessary.
func (p *Plugin) firstCandidates(cs fwk.CycleState, s *state, candidates *shortlist.Candidates, nodes []fwk.NodeInfo) (shortlist.Answer, error) {
	return shortlist.Open(cs).FirstNodes(shortlist.Question{Candidates: candidates, Nodes: nodes, Changes: cycle.ReadChanges(cs),
		// Pods that are nominated to a node are not counted here; Filter counts them.
		Fits: func(node fwk.NodeInfo) bool { return p.couldFit(s, node) }, IsOpen: s.isOpen,
	})
}

// PreFilterExtensions returns nil: Filter reads usage from the NodeInfo it is given, so nothing that
// PreFilter computed changes when pods come and go.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
