package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

type createPoolInput struct {
	Idempotent
	Body struct {
		Name string `json:"name,omitempty" maxLength:"63" doc:"The name of the pool; that of yamlContent is in its metadata"`
		PoolSpec
	}
}

type updatePoolInput struct {
	PoolRef
	IfMatch
	Body PoolSpec
}

type deletePoolInput struct {
	PoolRef
	IfMatch
	Force bool `query:"force" doc:"Delete it although jobs use it: those that wait will wait forever"`
}

// PoolChanged is the result of a change of a pool.
type PoolChanged struct {
	Name    string `json:"name"`
	Status  string `json:"status" enum:"created,updated,unchanged,deleted,valid"`
	Message string `json:"message"`
	Changed int    `json:"changed" doc:"Nodes that were changed"`
	// Retyped are the nodes whose GPU type changed. Jobs find nodes by this type.
	Retyped []RetypedNode `json:"retyped,omitempty" doc:"Nodes that had another GPU type than the pool gives them"`
}

// RetypedNode is a node that had another GPU type.
type RetypedNode struct {
	Node    string `json:"node"`
	GPUType string `json:"gpuType"`
	Was     string `json:"was"`
}

type poolChangedOutput struct {
	Status int
	Body   PoolChanged
}

type joinInput struct {
	NodeRef
	Idempotent
	Body struct {
		Pool  string `json:"pool" minLength:"1" maxLength:"63"`
		Force bool   `json:"force,omitempty" doc:"Take the node out of the pool that it is in"`
	}
}

type leaveInput struct {
	NodeRef
	PoolRef
	IfMatch
}

type memberOutput struct {
	Body struct {
		Node    string `json:"node"`
		Pool    string `json:"pool"`
		Message string `json:"message"`
	}
}

const (
	messagePoolCreated = "资源池创建成功"
	messagePoolUpdated = "资源池更新成功"
	messagePoolSame    = "资源池无变化"
	messagePoolDeleted = "资源池删除成功"
	messagePoolValid   = "校验通过，未修改资源池"
	messageNodeJoined  = "节点已成功添加到资源池"
	messageNodeLeft    = "节点已成功从资源池移除"
)

func (s *Server) poolWriteRoutes() {
	fails := []int{http.StatusNotFound, http.StatusConflict}
	const whole = "All nodes or none: they are checked before the first is changed, and one that cannot be changed undoes the others. " +
		"Nodes of another pool are refused with 409 NodesInOtherPools, unless force is set; nodes that break what the GPUPool of that " +
		"name asks, always, with 409 PoolConstraints, the nodes and by how much."
	registerRoute(s, route{method: http.MethodPost, path: Root + "/pools", id: "createPool", tag: "pools", status: http.StatusCreated,
		summary: "Create a pool of nodes", detail: "A pool that has nodes is refused with 409 AlreadyExists, unless force is set, and nodes that have another GPU type with 409 LabelConflict, unless overwrite is. " + whole, fails: fails,
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[PoolChanged](s, "The pool is valid, and was not created")}}, s.createPool)
	registerRoute(s, route{method: http.MethodPut, path: Root + "/pools/{poolName}", id: "updatePool", tag: "pools",
		summary: "Make a pool exactly these nodes: others leave it", detail: whole, fails: fails}, s.updatePool)
	registerRoute(s, route{method: http.MethodDelete, path: Root + "/pools/{poolName}", id: "deletePool", tag: "pools",
		summary: "Take all nodes out of a pool", detail: "Refused with 409 PoolInUse while jobs use it, unless force is set.",
		fails: fails}, s.deletePool)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/nodes/{nodeName}/pools", id: "joinPool", tag: "nodes",
		summary: "Bring a node into a pool", fails: fails}, s.joinPool)
	registerRoute(s, route{method: http.MethodDelete, path: Root + "/nodes/{nodeName}/pools/{poolName}", id: "leavePool", tag: "nodes",
		summary: "Take a node out of a pool; refused if it is in another one", fails: fails}, s.leavePool)
}

func (s *Server) createPool(ctx context.Context, in *createPoolInput) (*poolChangedOutput, error) {
	wanted, err := s.requestedPool(ctx, &in.Body.PoolSpec, in.Body.Name)
	if err == nil {
		err = in.Body.keepUnstated(ctx, wanted)
	}
	if err != nil {
		return nil, err
	}
	options := in.Body.poolOptions(wanted)
	options.New = true
	plan, err := s.changePool(ctx, "", unconditionalPlan(func(nodes []corev1.Node) pool.Plan { return pool.Join(wanted, nodes) }), options)
	if err != nil {
		return nil, err
	}
	out := &poolChangedOutput{Status: http.StatusCreated, Body: PoolChanged{
		Name: wanted.Name, Status: "created", Message: messagePoolCreated, Changed: len(plan.Patches), Retyped: retypedNodes(&plan),
	}}
	if in.Body.DryRun {
		out.Status, out.Body.Status, out.Body.Message = http.StatusOK, "valid", messagePoolValid
	}
	return out, nil
}

func (s *Server) updatePool(ctx context.Context, in *updatePoolInput) (*poolChangedOutput, error) {
	wanted, err := s.requestedPool(ctx, &in.Body, in.Pool)
	if err == nil {
		err = in.Body.keepUnstated(ctx, wanted)
	}
	if err != nil {
		return nil, err
	}
	options := in.Body.poolOptions(wanted)
	options.Overwrite = true
	plan, err := s.changePool(ctx, "", in.ifPoolMatches(in.Pool, func(nodes []corev1.Node) pool.Plan { return pool.Apply(wanted, nodes) }), options)
	if err != nil {
		return nil, err
	}
	out := &poolChangedOutput{Status: http.StatusOK, Body: PoolChanged{
		Name: wanted.Name, Status: "updated", Message: messagePoolUpdated, Changed: len(plan.Patches), Retyped: retypedNodes(&plan),
	}}
	switch {
	case in.Body.DryRun:
		out.Body.Status, out.Body.Message = "valid", messagePoolValid
	case len(plan.Patches) == 0:
		out.Body.Status, out.Body.Message = "unchanged", messagePoolSame
	}
	return out, nil
}

func (s *Server) deletePool(ctx context.Context, in *deletePoolInput) (*poolChangedOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	if jobs := view.jobsUsing(in.Pool); len(jobs) > 0 && !in.Force {
		return nil, conflictErrorf("PoolInUse", "%d jobs use pool %q: wait until they end, move them, or set force", len(jobs), in.Pool)
	}
	plan, err := s.changePool(ctx, "", in.ifPoolMatches(in.Pool, func(nodes []corev1.Node) pool.Plan {
		return pool.Delete(in.Pool, nodes)
	}), submit.PoolOptions{})
	if err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	declared, err := writer.DeleteGPUPool(ctx, in.Pool)
	if declared {
		s.waitForRemoval(ctx, in.Pool)
	}
	switch {
	case err != nil:
		return nil, err
	case len(plan.Patches) == 0 && !declared:
		return nil, notFoundErrorf("pool %q not found: a pool without nodes does not exist, unless there is a GPUPool of that name", in.Pool)
	}
	return &poolChangedOutput{Status: http.StatusOK, Body: PoolChanged{
		Name: in.Pool, Status: "deleted", Message: messagePoolDeleted, Changed: len(plan.Patches),
	}}, nil
}

// retypedNodes returns the nodes whose GPU type a plan changes.
func retypedNodes(plan *pool.Plan) []RetypedNode {
	var out []RetypedNode
	for _, taken := range plan.Taken {
		out = append(out, RetypedNode{Node: taken.Node, GPUType: taken.Becomes, Was: taken.Value})
	}
	return out
}

// jobsUsing returns the jobs of a pool that have not ended.
func (v *view) jobsUsing(name string) []string {
	var out []string
	for i := range v.Jobs {
		if v.Jobs[i].Pool == name && v.Jobs[i].Finished == nil {
			out = append(out, v.Jobs[i].Name)
		}
	}
	return out
}

func (s *Server) joinPool(ctx context.Context, in *joinInput) (*memberOutput, error) {
	spec := PoolSpec{Nodes: []string{in.Node}}
	wanted, err := spec.buildPool(in.Body.Pool)
	if err != nil {
		return nil, err
	}
	_, err = s.changePool(ctx, in.Node, unconditionalPlan(func(nodes []corev1.Node) pool.Plan {
		return pool.Add(wanted.Name, []string{in.Node}, nodes)
	}), submit.PoolOptions{Force: in.Body.Force})
	if err != nil {
		return nil, err
	}
	out := &memberOutput{}
	out.Body.Node, out.Body.Pool, out.Body.Message = in.Node, in.Body.Pool, messageNodeJoined
	return out, nil
}

func (s *Server) leavePool(ctx context.Context, in *leaveInput) (*memberOutput, error) {
	_, err := s.changePool(ctx, in.Node, in.ifNodeMatches(in.Node, "", func(nodes []corev1.Node) pool.Plan {
		return pool.Leave(in.Pool, []string{in.Node}, nodes)
	}), submit.PoolOptions{})
	if err != nil {
		return nil, err
	}
	out := &memberOutput{}
	out.Body.Node, out.Body.Pool, out.Body.Message = in.Node, in.Pool, messageNodeLeft
	return out, nil
}

// changePool applies a plan as the caller and returns when lists show its nodes.
func (s *Server) changePool(ctx context.Context, node string, plan nodePlan, opts submit.PoolOptions) (pool.Plan, error) {
	planned, err := changeNodes(ctx, node, plan, opts)
	if err != nil || opts.DryRun {
		return planned, err
	}
	for _, patch := range planned.Patches {
		addAuditNote(ctx, "node/"+patch.Node+" pool/"+planned.Pool)
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool { return v.showsPlan(planned) })
	if opts.Declare != nil {
		s.waitForGPUPool(ctx, opts.Declare.Name)
	}
	return planned, nil
}

// waitForRemoval waits until lists no longer show a pool.
func (s *Server) waitForRemoval(ctx context.Context, name string) {
	s.cache.waitUntilShown(ctx, func(v *view) bool {
		_, there := v.FindPool(name)
		return !there
	})
}

// waitForGPUPool waits until lists show the GPUPool as it was written.
func (s *Server) waitForGPUPool(ctx context.Context, name string) {
	writer, err := newWriter(ctx)
	if err != nil {
		return
	}
	live, err := writer.GPUPool(ctx, name)
	if err != nil || live == nil {
		return
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool {
		shown, there := v.FindPool(name)
		return there && shown.Declared != nil && shown.Declared.Generation >= live.Generation
	})
}

// changeNodes applies a plan as the caller. The caller must be able to patch the named node, or all nodes without a name, even if nothing has to
// change. A rejected plan changes nothing.
func changeNodes(ctx context.Context, node string, plan nodePlan, opts submit.PoolOptions) (pool.Plan, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return pool.Plan{}, err
	}
	if err := caller.CheckNamedRight(ctx, "patch", "", node, nodeResource); err != nil {
		return pool.Plan{}, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return pool.Plan{}, err
	}
	var refused error
	planned, err := writer.ChangePool(ctx, func(nodes []corev1.Node) pool.Plan {
		var out pool.Plan
		if out, refused = plan(nodes); refused != nil {
			return pool.Plan{}
		}
		return out
	}, opts)
	if refused != nil {
		return pool.Plan{}, refused
	}
	return planned, err
}

// showsPlan reports whether the view has the nodes as a plan makes them.
func (v *view) showsPlan(plan pool.Plan) bool {
	nodes := make(map[string]*corev1.Node, len(v.Objects.Nodes))
	for i := range v.Objects.Nodes {
		nodes[v.Objects.Nodes[i].Name] = &v.Objects.Nodes[i]
	}
	return !slices.ContainsFunc(plan.Patches, func(patch pool.Patch) bool {
		node := nodes[patch.Node]
		return node == nil || !matchChanges(patch.Labels, node.Labels) || !matchChanges(patch.Annotations, node.Annotations)
	})
}

// matchChanges reports whether labels or annotations match the result of the changes.
func matchChanges(changes map[string]pool.Change, current map[string]string) bool {
	for key, change := range changes {
		value, has := current[key]
		if has != (change.After != nil) || has && value != *change.After {
			return false
		}
	}
	return true
}
