package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// IfMatch lets a client change only the version that it has read. It is exported because huma reads only exported embedded types.
type IfMatch struct {
	Match string `header:"If-Match" maxLength:"4096" doc:"The ETag of what you have read: if it has changed since, it stays as it is, and the answer is 412. Several, with commas, are any of them; * is whatever is there"`
}

// ETagged is the version of the writable part of an answer's object. It does not change with the object's state.
type ETagged struct {
	ETag string `header:"ETag" doc:"The version of what can be changed of it, for If-Match. It stays the same while only its state changes"`
}

// checkVersion rejects a change unless one of the versions matches If-Match. The version "" stands for a missing object. Several versions stand for the same
// object.
func (m IfMatch) checkVersion(what string, versions ...string) error {
	versions = slices.DeleteFunc(versions, func(version string) bool { return version == "" })
	if m.Match == "" {
		return nil
	}
	for seen := range strings.SplitSeq(m.Match, ",") {
		seen = strings.TrimSpace(seen)
		if seen == "*" && len(versions) > 0 || slices.Contains(versions, seen) {
			return nil
		}
	}
	text := fmt.Sprintf("%s is not what If-Match says, and was left as it is: read it again, and decide again", what)
	if len(versions) == 0 {
		text = fmt.Sprintf("%s is not there, as If-Match says it is", what)
	}
	return &refusal{status: http.StatusPreconditionFailed, code: "PreconditionFailed", text: text}
}

// guardWriter returns a writer that changes only the version that the client has read.
func (m IfMatch) guardWriter(writer *submit.Client, what string) *submit.Client {
	if m.Match == "" {
		return writer
	}
	return writer.WithPrecondition(func(object metav1.Object) error { return m.checkVersion(what, objectETag(object)) })
}

// nodePlan plans a change of nodes or rejects it.
type nodePlan func([]corev1.Node) (pool.Plan, error)

// ifPoolMatches allows a plan only while the pool has the version that the client has read.
func (m IfMatch) ifPoolMatches(name string, plan func([]corev1.Node) pool.Plan) nodePlan {
	return func(nodes []corev1.Node) (pool.Plan, error) {
		return plan(nodes), m.checkVersion(fmt.Sprintf("pool %q", name), poolETag(name, nodes))
	}
}

// ifNodeMatches allows a plan only while the client has read the current version of the node, or of its label with the key if the key is not "".
func (m IfMatch) ifNodeMatches(name, key string, plan func([]corev1.Node) pool.Plan) nodePlan {
	return func(nodes []corev1.Node) (pool.Plan, error) {
		i := slices.IndexFunc(nodes, func(node corev1.Node) bool { return node.Name == name })
		if i < 0 {
			return plan(nodes), nil // the plan reports that the node is missing
		}
		return plan(nodes), m.checkVersion(fmt.Sprintf("node %q", name), objectETag(&nodes[i]), labelETag(&nodes[i], key))
	}
}

// unconditionalPlan allows a plan without a version check.
func unconditionalPlan(plan func([]corev1.Node) pool.Plan) nodePlan {
	return func(nodes []corev1.Node) (pool.Plan, error) { return plan(nodes), nil }
}

// versionedAnnotations lists the annotations that are part of an object's version. Others, such as a node's inventory, are state.
var versionedAnnotations = []string{
	names.AnnotationSubmitted, names.AnnotationDescription,
	names.AnnotationPausedAt, names.AnnotationPausedBecause, names.AnnotationCancelledAt, names.AnnotationReplicas,
	names.AnnotationWaitsFor, names.AnnotationQuotaBehind,
}

// objectETag is the version of an object; "" for nil.
func objectETag(object metav1.Object) string {
	if object == nil {
		return ""
	}
	parts := []any{object.GetUID(), object.GetGeneration(), object.GetLabels()}
	for _, key := range versionedAnnotations {
		parts = append(parts, object.GetAnnotations()[key])
	}
	if quota, ok := object.(*corev1.ResourceQuota); ok { // its generation stays the same
		parts = append(parts, quota.Spec)
	}
	return hashETag(parts...)
}

// poolETag is the version of a pool: its nodes and their description. It is "" for a pool without nodes, which does not exist.
func poolETag(name string, nodes []corev1.Node) string {
	var members []string
	for i := range nodes {
		node := &nodes[i]
		if gpu.PoolOf(node) == name {
			members = append(members, strings.Join([]string{
				node.Name, string(node.UID), node.Labels[names.LabelGPUType], node.Annotations[names.AnnotationDescription],
			}, "\x00"))
		}
	}
	if len(members) == 0 {
		return ""
	}
	slices.Sort(members)
	return hashETag(name, members)
}

// labelETag is the version of a label of a node, "" if the node has none.
func labelETag(node *corev1.Node, key string) string {
	value, has := node.Labels[key]
	if !has {
		return ""
	}
	return hashETag(node.UID, key, value)
}

// hashETag is a strong ETag of values that JSON can hold.
func hashETag(parts ...any) string {
	data, _ := json.Marshal(parts) // strings, numbers and what Kubernetes itself encodes
	sum := sha256.Sum256(data)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}
