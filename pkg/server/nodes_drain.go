package server

import (
	"context"
	"errors"
	"net/http"

	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type drainInput struct {
	NodeRef
	Idempotent
	Body struct {
		Force  bool `json:"force,omitempty" doc:"Evict also pods that are not to be moved, and those that nothing would start again"`
		DryRun bool `json:"dryRun,omitempty" doc:"Say what would leave, and change nothing"`
	}
}

// Drained is the progress of a drain.
type Drained struct {
	Node    string       `json:"node"`
	Status  string       `json:"status" enum:"drained,draining,valid" doc:"draining: pods have been told to leave, or wait for a budget; ask again to go on"`
	Units   []drain.Unit `json:"units" doc:"What leaves together, and the disruption budget that it waits for"`
	Holds   []drain.Hold `json:"holds,omitempty" doc:"With dryRun: the pods that need a person, or force"`
	Staying int          `json:"staying" doc:"Pods that stay, as they hold no GPUs or belong to the node"`
	Message string       `json:"message"`
}

type drainOutput struct{ Body Drained }

type recoverInput struct {
	NodeRef
	Idempotent
	Body struct {
		Force  bool `json:"force,omitempty" doc:"Trust a node whose condition is still true that made it suspect"`
		DryRun bool `json:"dryRun,omitempty" doc:"Let the API server check everything, and change nothing"`
	}
}

// RecoveredNode is the result of returning a node to service.
type RecoveredNode struct {
	drain.Recovered
	Message string `json:"message"`
}

type recoverOutput struct{ Body RecoveredNode }

const (
	messageDrained   = "节点已排空"
	messageDraining  = "节点排空中，请稍后重试"
	messageDrainPlan = "校验通过，未修改节点"
	messageRecovered = "节点已恢复"
	messageNoChange  = "节点无变化"
)

func (s *Server) drainRoutes() {
	fails := []int{http.StatusNotFound, http.StatusConflict}
	registerRoute(s, route{method: http.MethodPost, path: Root + "/nodes/{nodeName}/drain", id: "drainNode", tag: "nodes",
		summary: "Cordon a node, and evict its pods with GPUs",
		detail: "Asks once, and does not wait: the answer says what has been told to leave, and the same request goes on. Disruption budgets " +
			"are kept, and a gang that cannot work without those that leave is evicted as a whole. Refused with 409 NeedsPerson, and nothing " +
			"is done, while a pod is not to be moved or nothing would start it again, unless force is set.",
		fails: fails}, s.drainNode)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/nodes/{nodeName}/recover", id: "recoverNode", tag: "nodes",
		summary: "Give a node back that was drained, cordoned or suspect",
		detail:  "Refused with 409 NotWell while the node is not ready, or while the condition is true that made it suspect, unless force is set.",
		fails:   fails}, s.recoverNode)
}

func (s *Server) drainNode(ctx context.Context, in *drainInput) (*drainOutput, error) {
	drainer, err := newDrainer(ctx, in.Node, in.Body.Force)
	if err != nil {
		return nil, err
	}
	out := &drainOutput{}
	if in.Body.DryRun {
		plan, err := drainer.Plan(ctx, in.Node)
		out.Body = drainAnswer(plan, "valid", messageDrainPlan)
		return out, err
	}
	plan, err := drainer.BeginDrain(ctx, in.Node)
	if err == nil {
		addAuditNote(ctx, "node/"+in.Node+" drain")
		err = drainer.EvictOnce(ctx, plan)
	}
	if err != nil {
		return nil, err
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool { node, ok := v.FindNode(in.Node); return ok && node.Cordoned })
	out.Body = drainAnswer(plan, "draining", messageDraining)
	if len(plan.Units) == 0 {
		out.Body = drainAnswer(plan, "drained", messageDrained)
	}
	return out, nil
}

func drainAnswer(plan drain.Plan, status, message string) Drained {
	return Drained{Node: plan.Node, Status: status, Units: orEmpty(plan.Units), Holds: plan.Holds, Staying: plan.Staying, Message: message}
}

func (s *Server) recoverNode(ctx context.Context, in *recoverInput) (*recoverOutput, error) {
	drainer, err := newDrainer(ctx, in.Node, in.Body.Force)
	if err != nil {
		return nil, err
	}
	recovered, err := drainer.RecoverNode(ctx, in.Node, in.Body.DryRun)
	if err != nil {
		return nil, err
	}
	out := &recoverOutput{Body: RecoveredNode{Recovered: recovered, Message: messageNoChange}}
	switch {
	case in.Body.DryRun:
		out.Body.Message = messageDrainPlan
	case recovered.HasChanges():
		out.Body.Message = messageRecovered
		addAuditNote(ctx, "node/"+in.Node+" recover")
		s.cache.waitUntilShown(ctx, func(v *view) bool { node, ok := v.FindNode(in.Node); return ok && !node.Cordoned })
	}
	return out, nil
}

// newDrainer returns a drainer that acts as the caller. The caller must be able to patch the node, even if nothing has to change.
func newDrainer(ctx context.Context, node string, force bool) (*drain.Drainer, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckNamedRight(ctx, "patch", "", node, nodeResource); err != nil {
		return nil, err
	}
	return &drain.Drainer{Client: caller.Kubernetes, Force: force, Report: func(phrase.Text) {}}, nil
}

// drainConflict returns the code of an error that prevents draining or recovering a node, "" for other errors.
func drainConflict(err error) string {
	switch {
	case errors.As(err, new(*drain.HeldError)):
		return "NeedsPerson"
	case errors.As(err, new(*drain.NotWellError)):
		return "NotWell"
	}
	return ""
}
