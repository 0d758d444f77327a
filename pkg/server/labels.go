package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// LabelPath is a label key in a path, where a slash is written %2F.
type LabelPath struct {
	NodeRef
	Key string `path:"key" maxLength:"317" doc:"The key; a slash in it may be written %2F" example:"g8s.host%2Fgpu-type"`
}

// LabelQuery is a label key in a query, where slashes need no escaping.
type LabelQuery struct {
	NodeRef
	Key string `query:"key" required:"true" maxLength:"317" example:"g8s.host/gpu-type"`
}

type nodeLabelsOutput struct {
	ETagged
	Body struct {
		Node   string            `json:"node"`
		Labels map[string]string `json:"labels"`
	}
}

// NodeLabel is one label of a node.
type NodeLabel struct {
	NodeName string     `json:"nodeName"`
	Label    LabelValue `json:"label"`
}

// LabelValue is a label. Kubernetes keeps no time for labels, so CreatedAt is the node's.
type LabelValue struct {
	Key       string    `json:"key"`
	Value     string    `json:"value"`
	CreatedAt time.Time `json:"createdAt" doc:"When the node was registered: labels have no times of their own"`
}

type nodeLabelOutput struct {
	ETagged
	Body NodeLabel
}

type addLabelInput struct {
	NodeRef
	Idempotent
	Body struct {
		Key       string `json:"key" minLength:"1" maxLength:"317"`
		Value     string `json:"value" maxLength:"63"`
		Overwrite bool   `json:"overwrite,omitempty" doc:"Change a label that has another value; without it that is 409 LabelConflict"`
	}
}

type addLabelOutput struct {
	Body struct {
		NodeName string            `json:"nodeName"`
		Label    map[string]string `json:"label"`
		Message  string            `json:"message"`
		Warnings []string          `json:"warnings,omitempty" doc:"Labels of the node that are read instead of this one"`
	}
}

type labelValueBody struct {
	Value string `json:"value" minLength:"1" maxLength:"63"`
}

type setLabelInput struct {
	LabelPath
	IfMatch
	Body labelValueBody
}

type setLabelQueryInput struct {
	LabelQuery
	IfMatch
	Body labelValueBody
}

type removeLabelInput struct {
	LabelPath
	IfMatch
}

type removeLabelQueryInput struct {
	LabelQuery
	IfMatch
}

// LabelChanged is the result of a change of a label.
type LabelChanged struct {
	Node    string `json:"node"`
	Label   string `json:"label" doc:"key=value, or the key of a label that was removed"`
	Message string `json:"message"`
}

type labelChangedOutput struct{ Body LabelChanged }

type batchLabelInput struct {
	Idempotent
	NodeNames []string `query:"nodeNames,explode" required:"true" minItems:"1" maxItems:"1000" doc:"Once for each node"`
	Key       string   `query:"key" required:"true" maxLength:"317"`
	Value     string   `query:"value" required:"true" maxLength:"63"`
	Overwrite bool     `query:"overwrite"`
}

// LabelBatch is the result for each node.
type LabelBatch struct {
	Success []string       `json:"success"`
	Failed  []LabelFailure `json:"failed"`
	Message string         `json:"message"`
}

// LabelFailure is a node that was not labelled.
type LabelFailure struct {
	NodeName   string `json:"nodeName"`
	HTTPStatus int    `json:"httpStatus" doc:"The status that this node alone would be answered with"`
	Error      string `json:"error"`
	Code       string `json:"code"`
}

type batchLabelOutput struct {
	Status int
	Body   LabelBatch
}

const (
	messageLabelAdded   = "标签添加成功"
	messageLabelUpdated = "标签更新成功"
	messageLabelRemoved = "标签删除成功"
	messageLabelBatch   = "批量标记节点 Label 完成"
)

func (s *Server) labelRoutes() {
	s.labelListRoutes()
	node := Root + "/nodes/{nodeName}/labels"
	missing := []int{http.StatusNotFound}
	both := []int{http.StatusNotFound, http.StatusConflict}
	registerRoute(s, route{method: http.MethodGet, path: node, id: "listLabelsOfNode", tag: "labels",
		summary: "The labels of a node", fails: missing}, s.listLabelsOfNode)
	registerRoute(s, route{method: http.MethodGet, path: node + "/{key}", id: "getNodeLabel", tag: "labels",
		summary: "One label of a node", fails: missing}, s.getNodeLabel)
	registerRoute(s, route{method: http.MethodPost, path: node, id: "addNodeLabel", tag: "labels",
		summary: "Label a node",
		detail: "Keys are read as gpuctl reads them: `pool` is `g8s.host/pool`, and what is no name of our labels is the key as it is written, " +
			"such as `accelerator`. `warnings` tells of a label that hides this one. Keys of Kubernetes itself (kubernetes.io, k8s.io) are refused: they are the kubelet's.", fails: both}, s.addNodeLabel)
	registerRoute(s, route{method: http.MethodPut, path: node + "/{key}", id: "setNodeLabel", tag: "labels",
		summary: "Set a label of a node, whatever it was", fails: both}, func(ctx context.Context, in *setLabelInput) (*labelChangedOutput, error) {
		return s.setLabel(ctx, labelChange{in.Node, labelKey(in.Key), &in.Body.Value, in.IfMatch})
	})
	registerRoute(s, route{method: http.MethodPut, path: node, id: "setNodeLabelByQuery", tag: "labels",
		summary: "Set a label of a node, its key in the query", fails: both}, func(ctx context.Context, in *setLabelQueryInput) (*labelChangedOutput, error) {
		return s.setLabel(ctx, labelChange{in.Node, labelKey(in.Key), &in.Body.Value, in.IfMatch})
	})
	registerRoute(s, route{method: http.MethodDelete, path: node + "/{key}", id: "removeNodeLabel", tag: "labels",
		summary: "Remove a label of a node", fails: both}, func(ctx context.Context, in *removeLabelInput) (*labelChangedOutput, error) {
		return s.removeLabel(ctx, labelChange{in.Node, labelKey(in.Key), nil, in.IfMatch})
	})
	registerRoute(s, route{method: http.MethodDelete, path: node, id: "removeNodeLabelByQuery", tag: "labels",
		summary: "Remove a label of a node, its key in the query", fails: both}, func(ctx context.Context, in *removeLabelQueryInput) (*labelChangedOutput, error) {
		return s.removeLabel(ctx, labelChange{in.Node, labelKey(in.Key), nil, in.IfMatch})
	})
	registerRoute(s, route{method: http.MethodPost, path: Root + "/nodes/labels/batch", id: "labelNodes", tag: "labels",
		summary: "Label several nodes, each for itself",
		detail:  "200 says that all have the label, 207 that some have not: `failed` tells which, and why; NotTried is one for which the request had no time left. You must be able to patch all nodes.",
		fails:   []int{http.StatusUnprocessableEntity},
		replies: map[int]*huma.Response{http.StatusMultiStatus: jsonReply[LabelBatch](s, "Some were not labelled")}}, s.labelNodes)
}

func (s *Server) listLabelsOfNode(ctx context.Context, in *NodeRef) (*nodeLabelsOutput, error) {
	_, node, err := s.findNode(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	out := &nodeLabelsOutput{ETagged: ETagged{objectETag(node)}}
	out.Body.Node, out.Body.Labels = node.Name, node.Labels
	return out, nil
}

func (s *Server) getNodeLabel(ctx context.Context, in *LabelPath) (*nodeLabelOutput, error) {
	_, node, err := s.findNode(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	key := labelKey(in.Key)
	value, ok := node.Labels[key]
	if !ok {
		return nil, notFoundErrorf("node %q has no label %q", in.Node, key)
	}
	return &nodeLabelOutput{ETagged: ETagged{labelETag(node, key)}, Body: NodeLabel{NodeName: node.Name, Label: LabelValue{
		Key: key, Value: value, CreatedAt: node.CreationTimestamp.Time,
	}}}, nil
}

func (s *Server) addNodeLabel(ctx context.Context, in *addLabelInput) (*addLabelOutput, error) {
	change := labelChange{node: in.Node, key: labelKey(in.Body.Key), value: &in.Body.Value}
	plan, err := s.changeLabel(ctx, change, in.Body.Overwrite)
	if err != nil {
		return nil, err
	}
	out := &addLabelOutput{}
	for _, hidden := range plan.Hidden {
		out.Body.Warnings = append(out.Body.Warnings, hidden.String())
	}
	out.Body.NodeName, out.Body.Message = in.Node, messageLabelAdded
	out.Body.Label = map[string]string{change.key: in.Body.Value}
	return out, nil
}

func (s *Server) setLabel(ctx context.Context, change labelChange) (*labelChangedOutput, error) {
	if _, err := s.changeLabel(ctx, change, true); err != nil {
		return nil, err
	}
	return &labelChangedOutput{Body: LabelChanged{
		Node: change.node, Label: change.key + "=" + *change.value, Message: messageLabelUpdated,
	}}, nil
}

func (s *Server) removeLabel(ctx context.Context, change labelChange) (*labelChangedOutput, error) {
	if _, err := s.changeLabel(ctx, change, true); err != nil {
		return nil, err
	}
	return &labelChangedOutput{Body: LabelChanged{Node: change.node, Label: change.key, Message: messageLabelRemoved}}, nil
}

func (s *Server) labelNodes(ctx context.Context, in *batchLabelInput) (*batchLabelOutput, error) {
	out := &batchLabelOutput{Status: http.StatusOK, Body: LabelBatch{
		Success: []string{}, Failed: []LabelFailure{}, Message: messageLabelBatch,
	}}
	key := labelKey(in.Key)
	if err := checkLabel(key, &in.Value); err != nil {
		return nil, err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckRight(ctx, "patch", "", nodeResource); err != nil {
		return nil, err
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := writer.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var done []pool.Plan
	failed := runBatch(ctx, len(in.NodeNames), func(i int) error {
		node := in.NodeNames[i]
		addAuditNote(ctx, "node/"+node+" "+key)
		labelled, err := writer.ChangeNodes(ctx, nodes, func(nodes []corev1.Node) pool.Plan {
			return pool.Label([]string{node}, map[string]*string{key: &in.Value}, nodes)
		}, submit.PoolOptions{Overwrite: in.Overwrite})
		if err == nil {
			done = append(done, labelled)
			out.Body.Success = append(out.Body.Success, node)
		}
		return err
	})
	for _, i := range slices.Sorted(maps.Keys(failed)) {
		out.Status = http.StatusMultiStatus
		out.Body.Failed = append(out.Body.Failed, LabelFailure{NodeName: in.NodeNames[i], HTTPStatus: failed[i].status, Error: failed[i].Message, Code: failed[i].Code})
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool {
		return !slices.ContainsFunc(done, func(p pool.Plan) bool { return !v.showsPlan(p) })
	})
	return out, nil
}

// labelChange is the wanted state of a node's label: removed for a nil value.
type labelChange struct {
	node, key string
	value     *string
	match     IfMatch
}

// changeLabel sets or removes a label and returns when lists show the change. Removing a missing label is an error.
func (s *Server) changeLabel(ctx context.Context, change labelChange, overwrite bool) (pool.Plan, error) {
	if err := checkLabel(change.key, change.value); err != nil {
		return pool.Plan{}, err
	}
	addAuditNote(ctx, "node/"+change.node+" "+change.key)
	plan, err := changeNodes(ctx, change.node, change.match.ifNodeMatches(change.node, change.key, func(nodes []corev1.Node) pool.Plan {
		return pool.Label([]string{change.node}, map[string]*string{change.key: change.value}, nodes)
	}), submit.PoolOptions{Overwrite: overwrite})
	if err != nil {
		return plan, err
	}
	if change.value == nil && len(plan.Patches) == 0 {
		return plan, notFoundErrorf("node %q has no label %q", change.node, change.key)
	}
	s.cache.waitUntilShown(ctx, func(v *view) bool { return v.showsPlan(plan) })
	return plan, nil
}

// labelKey expands a word to a key, as gpuctl does.
func labelKey(word string) string { return pool.LabelKey(word) }

// checkLabel rejects labels that Kubernetes would reject, before any node changes, and labels that users may not change.
func checkLabel(key string, value *string) error {
	err := pool.CheckLabelKey(key)
	if err == nil && value != nil {
		err = pool.CheckLabelValue(phrase.Textf("the value of %s", key), *value)
	}
	if err != nil {
		return invalidErrorf("%v", err)
	}
	return nil
}

// isGPULabel reports whether a label describes the GPUs of a node.
func isGPULabel(key string) bool {
	return slices.Contains(names.GPUTypeLabels, key) || strings.HasPrefix(key, names.GroupName+"/gpu") ||
		strings.HasPrefix(key, "nvidia.com/") || strings.HasPrefix(key, "gpu-")
}

// nodePools returns the pool of a node as a list, for clients of the first gpuctl.
func nodePools(node *corev1.Node) []string { return []string{gpu.PoolOf(node)} }
