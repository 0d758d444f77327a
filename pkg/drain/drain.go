package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"g8s.host/gpu-scheduler/pkg/conflict"
	"g8s.host/gpu-scheduler/pkg/eviction"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// HeldError means that pods require a decision by an administrator before a node is drained.
type HeldError struct {
	Node  string
	Holds []Hold
	// Begun says that such a pod appeared during the drain; otherwise nothing was done.
	Begun bool
}

// mostNamed bounds the pods that an error names.
const mostNamed = 10

func (e *HeldError) Error() string { return e.Message().String() }

// Message is the error in every language.
func (e *HeldError) Message() phrase.Text {
	out := phrase.Textf("node %s is not drained, nothing was done:", e.Node)
	if e.Begun {
		out = phrase.Textf("node %s is not drained:", e.Node)
	}
	for _, hold := range e.Holds[:min(mostNamed, len(e.Holds))] {
		out = out.Addf("\n  %s", hold.Says())
	}
	if more := len(e.Holds) - mostNamed; more > 0 {
		out = out.Addf("\n  and %d more", more)
	}
	return out
}

// StoppedError reports the progress of an interrupted drain and the cause.
type StoppedError struct {
	Node string
	// Gone counts the pods that have left. Left are those that have not.
	Gone  int
	Left  []Pod
	Cause error
}

func (e *StoppedError) Error() string { return e.Cause.Error() }

// Message is the error in every language.
func (e *StoppedError) Message() phrase.Text { return phrase.FromError(e.Cause) }

// Unwrap returns the cause.
func (e *StoppedError) Unwrap() error { return e.Cause }

// ProgressText describes which pods have left and which have not, and the state of the node.
func (e *StoppedError) ProgressText() phrase.Text {
	left := make([]string, 0, mostNamed)
	for _, pod := range e.Left[:min(mostNamed, len(e.Left))] {
		left = append(left, pod.String())
	}
	text := phrase.Quote(strings.Join(left, ", "))
	if more := len(e.Left) - mostNamed; more > 0 {
		text = text.Addf(" and %d more", more)
	}
	if len(text) == 0 {
		text = phrase.Textf("none that is known")
	}
	return phrase.Textf("Pods that have left: %d. Still on node %s: %s.\nThe node stays cordoned.", e.Gone, e.Node, text)
}

// Drainer drains nodes with the identity of its client.
type Drainer struct {
	Client kubernetes.Interface
	// Force moves pods that would require a decision by an administrator.
	Force bool
	// Report gets each step.
	Report func(text phrase.Text)
}

// pollInterval is how often the remaining pods are checked.
const pollInterval = time.Second

// getNode reads a node. An invalid name counts as not found.
func (d *Drainer) getNode(ctx context.Context, name string) (*corev1.Node, error) {
	if len(path.IsValidPathSegmentName(name)) > 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	node, err := d.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, phrase.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// Plan returns the plan for a node and changes nothing.
func (d *Drainer) Plan(ctx context.Context, node string) (Plan, error) {
	if _, err := d.getNode(ctx, node); err != nil {
		return Plan{}, err
	}
	return d.readPlan(ctx, node)
}

func (d *Drainer) readPlan(ctx context.Context, node string) (Plan, error) {
	read, err := snapshot.Read(ctx, d.Client, snapshot.Pods(snapshot.Scope{Fields: snapshot.PlacedPods}), snapshot.Budgets(snapshot.Scope{}).IfAllowed())
	if err != nil {
		return Plan{}, err
	}
	gangs, err := snapshot.Read(ctx, d.Client, snapshot.Objects(objectsOf(read.Pods, node)...))
	if err != nil {
		return Plan{}, err
	}
	read.Objects = gangs.Objects
	return Decide(read, node, d.Force), nil
}

// objectsOf returns the objects that define the gangs of a node's pods.
func objectsOf(pods []corev1.Pod, node string) []snapshot.ObjectRef {
	var out []snapshot.ObjectRef
	for i := range pods {
		if pods[i].Spec.NodeName != node {
			continue
		}
		for _, source := range gang.SourcesOf(&pods[i]) {
			if ref := refOf(source, pods[i].Namespace); !slices.Contains(out, ref) {
				out = append(out, ref)
			}
		}
	}
	return out
}

// Drain cordons a node and evicts its pods with GPUs until they have left or the time is over. Completed steps remain: the error is a [StoppedError].
func (d *Drainer) Drain(ctx context.Context, node string, timeout time.Duration) error {
	plan, err := d.BeginDrain(ctx, node)
	if err != nil {
		return err
	}
	ctx, stop := timelimit.WithLimit(ctx, timeout, phrase.Textf("pods are still on node %s", node))
	defer stop()
	r := &round{drainer: d, node: node, first: map[string][]types.UID{}, reported: map[string]bool{}, previous: plan.PodsOnNode()}
	for len(plan.PodsOnNode()) > 0 {
		if err = r.evictAll(ctx, plan); err == nil {
			err = sleepFor(ctx, pollInterval)
		}
		var next Plan
		if err == nil {
			next, err = d.readPlan(ctx, node)
		}
		if err == nil && len(next.Holds) > 0 {
			err = &HeldError{Node: node, Holds: next.Holds, Begun: true}
		}
		if err != nil {
			return &StoppedError{Node: node, Gone: r.gone, Left: plan.PodsOnNode(), Cause: timelimit.Explain(ctx, err)}
		}
		r.reportGone(next)
		plan = next
	}
	return nil
}

// BeginDrain cordons a node, unless a pod requires a decision by an administrator first, and returns the plan.
func (d *Drainer) BeginDrain(ctx context.Context, node string) (Plan, error) {
	plan, err := d.Plan(ctx, node)
	if err != nil {
		return plan, err
	}
	if len(plan.Holds) > 0 {
		return plan, &HeldError{Node: node, Holds: plan.Holds}
	}
	changed, err := d.cordonNode(ctx, node)
	if err != nil {
		return plan, err
	}
	if changed {
		d.Report(phrase.Textf("node %s is cordoned: it gets no new pods", node))
	}
	// A pod may have arrived before the cordon, also one that requires a decision.
	now, err := d.readPlan(ctx, node)
	switch {
	case err != nil:
		return plan, &StoppedError{Node: node, Left: plan.PodsOnNode(), Cause: err} // it stays cordoned
	case len(now.Holds) > 0 && !d.Force:
		return now, &HeldError{Node: node, Holds: now.Holds, Begun: true}
	}
	return now, nil
}

// EvictOnce requests the eviction of a plan's pods once. Pods that a budget keeps remain.
func (d *Drainer) EvictOnce(ctx context.Context, plan Plan) error {
	r := &round{drainer: d, node: plan.Node, first: map[string][]types.UID{}, reported: map[string]bool{}}
	return r.evictAll(ctx, plan)
}

func (d *Drainer) cordonNode(ctx context.Context, name string) (changed bool, err error) {
	err = conflict.Retry(retry.DefaultBackoff, func() error {
		node, err := d.getNode(ctx, name)
		if changed = err == nil && !node.Spec.Unschedulable; !changed {
			return err
		}
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"unschedulable":true}}`, node.ResourceVersion)
		_, err = d.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return false, phrase.Errorf("cordoning node %s: %w", name, err)
	}
	return changed, nil
}

// round is the state of a drain between polls.
type round struct {
	drainer *Drainer
	node    string
	// first are the members of gangs at their first eviction: members that restart elsewhere are left alone.
	first    map[string][]types.UID
	reported map[string]bool
	previous []Pod
	gone     int
}

func (r *round) evictAll(ctx context.Context, plan Plan) error {
	for _, unit := range plan.Units {
		if unit.Gang != "" && unit.Budget != "" {
			r.reportOnce(phrase.Textf("gang %s/%s waits: disruption budget %s does not let all of it go", unit.Pods[0].Namespace, unit.Gang, unit.Budget))
			continue
		}
		waits := false
		for _, pod := range r.toEvict(unit) {
			if waits && pod.Node == r.node {
				break
			}
			leaves, err := r.evictPod(ctx, pod)
			if err != nil {
				return err
			}
			waits = waits || !leaves
		}
	}
	return nil
}

// toEvict returns the pods of a unit that are not terminating yet, those on other nodes first. Once a gang member on the node has left, the gang is
// not evicted again. With this order, a drain that is interrupted earlier, or blocked by a member elsewhere, evicts the whole gang the next time.
func (r *round) toEvict(unit Unit) []Pod {
	key := unit.Pods[0].Namespace + "/" + unit.Gang
	if unit.Gang != "" && r.first[key] == nil {
		for _, pod := range unit.Pods {
			r.first[key] = append(r.first[key], pod.UID)
		}
	}
	out := slices.DeleteFunc(slices.Clone(unit.Pods), func(pod Pod) bool {
		return pod.Terminating || unit.Gang != "" && pod.Node != r.node && !slices.Contains(r.first[key], pod.UID)
	})
	slices.SortStableFunc(out, func(a, b Pod) int {
		return cmp.Compare(r.isHere(a), r.isHere(b))
	})
	return out
}

// isHere returns 1 for a pod on the node, 0 for another.
func (r *round) isHere(pod Pod) int {
	if pod.Node == r.node {
		return 1
	}
	return 0
}

// evictPod requests the eviction of a pod within disruption budgets, and reports whether it leaves.
func (r *round) evictPod(ctx context.Context, pod Pod) (leaves bool, err error) {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	outcome, err := eviction.Evict(ctx, eviction.TypedClient{Client: r.drainer.Client.PolicyV1()}, object)
	switch outcome {
	case eviction.Gone:
		return true, nil
	case eviction.OverBudget:
		r.reportOnce(phrase.Textf("%s waits: a disruption budget does not let it go", pod))
		return false, nil
	case eviction.Busy:
		r.reportOnce(phrase.Textf("%s waits: the API server takes no more requests at the moment", pod))
		return false, nil
	case eviction.Refused:
		return false, phrase.Errorf("evicting pod %s: %w", pod, err)
	case eviction.Evicted:
	}
	text := phrase.Textf("%s is evicted", pod)
	if pod.Node != r.node {
		text = text.Addf(", of a gang that starts again as a whole, from %s", pod.Node)
	}
	r.reportOnce(text)
	return true, nil
}

// reportOnce reports a message once.
func (r *round) reportOnce(text phrase.Text) {
	if said := text.String(); !r.reported[said] {
		r.reported[said] = true
		r.drainer.Report(text)
	}
}

func (r *round) reportGone(next Plan) {
	left := next.PodsOnNode()
	for _, pod := range r.previous {
		if !slices.ContainsFunc(left, func(other Pod) bool { return other.UID == pod.UID }) {
			r.gone++
			r.drainer.Report(phrase.Textf("%s has left, %d to go", pod, len(left)))
		}
	}
	r.previous = left
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// RecoverNode returns a node to service: it removes its cordon and the suspect taint, unless the node is not healthy.
func (d *Drainer) RecoverNode(ctx context.Context, name string, dryRun bool) (Recovered, error) {
	var out Recovered
	err := conflict.Retry(retry.DefaultBackoff, func() error {
		node, err := d.getNode(ctx, name)
		if err != nil {
			return err
		}
		if out, err = PlanRecovery(node, d.Force); err != nil || !out.HasChanges() {
			return err
		}
		options := metav1.PatchOptions{}
		if dryRun {
			options.DryRun = []string{metav1.DryRunAll}
		}
		patch, err := out.mergePatch(node)
		if err == nil {
			_, err = d.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, options)
		}
		return err
	})
	var unwell *NotWellError
	switch {
	case err == nil, errors.As(err, &unwell):
		return out, err
	}
	return out, phrase.Errorf("giving node %s back: %w", name, err)
}
