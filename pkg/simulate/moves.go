package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/defrag"
)

// Moves applies the advice of pkg/defrag, as gpuctl advise defrag --apply does.
type Moves struct {
	Limits defrag.Limits
	// Every is the time between two rounds of advice, if any pod waits. A last round follows that long after the end.
	Every time.Duration
}

// Move is a pod that was moved so that another could start. It came back at once, where the scheduler put it.
type Move struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	// To is empty when the pod found no place.
	To string `json:"to"`
	// For is the pod for which room was made, and MadeRoom whether it has started then.
	For      string `json:"for"`
	MadeRoom bool   `json:"madeRoom"`
	// At is when, in seconds from the start.
	At float64 `json:"at,omitempty"`

	asks string // of the pod that started
}

// mover applies advice in a run.
type mover struct {
	*Moves
	budgets []policyv1.PodDisruptionBudget
	next    time.Duration
}

func newMover(options *Moves, cluster Cluster) mover {
	m := mover{Moves: options}
	for _, budget := range cluster.Budgets {
		m.budgets = append(m.budgets, *budget)
	}
	return m
}

// epoch is the date on which a simulation begins.
var epoch = time.Unix(0, 0)

// longAgo is when the pods of the cluster started, before the simulation.
const longAgo = -365 * 24 * time.Hour

// planMoves moves pods for those that wait, when it is due.
func (r *replay) planMoves(ctx context.Context, last bool) error {
	if r.mover.Moves == nil || len(r.waiting) == 0 || r.now < r.mover.next && !last {
		return nil
	}
	r.mover.next = r.now + r.mover.Every
	at := r.now
	if last {
		at = r.mover.next
	}
	advice := defrag.Plan(r.defragFacts(at), r.mover.Limits)
	for i := range advice.Proposals {
		if proposal := &advice.Proposals[i]; len(proposal.Moves) > 0 {
			if err := r.makeRoom(ctx, proposal); err != nil {
				return fmt.Errorf("moving pods for %s/%s: %w", proposal.Namespace, proposal.Pod, err)
			}
		}
	}
	return nil
}

// defragFacts returns the input of a plan at a time.
func (r *replay) defragFacts(at time.Duration) *defrag.Facts {
	facts := &defrag.Facts{Now: epoch.Add(at), Budgets: r.mover.budgets}
	for _, object := range r.engine.nodes.List() {
		if node, ok := object.(*corev1.Node); ok {
			facts.Nodes = append(facts.Nodes, *node)
		}
	}
	for _, e := range slices.SortedFunc(maps.Values(r.entries), compareWaiting) {
		switch {
		case e.bound != nil:
			facts.Running = append(facts.Running, *runningPod(e))
		case !e.held:
			facts.Waiting = append(facts.Waiting, *e.Pod)
		}
	}
	return facts
}

// runningPod is a pod as it would be in a cluster. An arrival has a controller: it comes back when it is evicted.
func runningPod(e *entry) *corev1.Pod {
	pod := e.bound.DeepCopy()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: epoch.Add(e.since)}
	if e.order >= 0 && metav1.GetControllerOf(pod) == nil {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: pod.Name, Controller: ptr.To(true)}}
	}
	return pod
}

// makeRoom makes the moves of a proposal, as long as the pods find places, and then places the waiting pod. Each node that a pod leaves stays closed
// until its place can be taken.
func (r *replay) makeRoom(ctx context.Context, p *defrag.Proposal) error {
	waiting := r.byName[types.NamespacedName{Namespace: p.Namespace, Name: p.Pod}]
	first := len(r.measure.result.Moves)
	moved, err := r.moveAll(ctx, p, waiting)
	if err != nil {
		return err
	}
	if err := r.engine.openNode(p.Node); err != nil {
		return err
	}
	if moved && waiting.bound == nil {
		if err := r.tryOnNode(ctx, waiting, p.Node); err != nil {
			return err
		}
	}
	for i := range r.measure.result.Moves[first:] {
		move := &r.measure.result.Moves[first+i]
		move.MadeRoom, move.asks = waiting.bound != nil || waiting.held, describeRequest(waiting.Pod)
	}
	return nil
}

// moveAll makes the moves of a proposal until one fails, and reports whether all were made. The node that is cleared is
// closed from the beginning, and stays so.
func (r *replay) moveAll(ctx context.Context, p *defrag.Proposal, waiting *entry) (bool, error) {
	if err := r.engine.closeNode(p.Node); err != nil {
		return false, err
	}
	for _, move := range p.Moves {
		if move.From != p.Node {
			if err := r.engine.closeNode(move.From); err != nil {
				return false, err
			}
		}
		moved, err := r.movePod(ctx, move, waiting)
		if err != nil {
			return false, err
		}
		if move.From != p.Node {
			err = r.engine.openNode(move.From)
		}
		if err != nil || !moved {
			return false, err
		}
	}
	return true, nil
}

// movePod evicts a pod, which comes back at once, and reports whether it found a place.
func (r *replay) movePod(ctx context.Context, m defrag.Move, waiting *entry) (bool, error) {
	pod := r.byName[types.NamespacedName{Namespace: m.Namespace, Name: m.Pod}]
	if pod == nil || pod.bound == nil || pod.bound.Spec.NodeName != m.From {
		return false, nil // it is gone since the plan was made
	}
	if err := r.endPod(ctx, pod); err != nil {
		return false, err
	}
	if err := r.engine.addPendingPod(pod.Pod); err != nil {
		return false, err
	}
	if err := r.enqueuePod(pod); err != nil {
		return false, err
	}
	if err := r.tryPod(ctx, pod); err != nil {
		return false, err
	}
	to := ""
	if pod.bound != nil {
		to = pod.bound.Spec.NodeName
	}
	r.measure.result.Moves = append(r.measure.result.Moves, Move{
		Pod: podKey(pod.Pod).String(), From: m.From, To: to, For: podKey(waiting.Pod).String(), At: r.now.Seconds(),
	})
	return to != "", nil
}

// closeNode keeps pods from a node, open lets them go there again.
func (e *engine) closeNode(name string) error {
	return e.updateTaints(name, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: names.TaintMoving, Effect: corev1.TaintEffectNoSchedule})
	})
}

func (e *engine) openNode(name string) error {
	return e.updateTaints(name, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == names.TaintMoving })
	})
}

func (e *engine) updateTaints(name string, change func(*corev1.Node)) error {
	object, found, err := e.nodes.GetByKey(name)
	old, ok := object.(*corev1.Node)
	if err != nil || !found || !ok {
		return fmt.Errorf("changing node %s, which is not there: %w", name, err)
	}
	node := old.DeepCopy()
	change(node)
	if err := e.nodes.Update(node); err != nil {
		return fmt.Errorf("changing node %s: %w", name, err)
	}
	e.scheduler.Cache.UpdateNode(klog.Background(), old, node)
	return nil
}

// maxMoved is how many kinds of helped pods the table shows.
const maxMoved = 5

// writeMoves prints how many moves made room, and for which pods.
func writeMoves(to io.Writer, r *Result) {
	if len(r.Moves) == 0 {
		return
	}
	helped, needed, lost := map[string]map[string]bool{}, map[string]int{}, 0
	for _, move := range r.Moves {
		if !move.MadeRoom {
			lost++
			continue
		}
		if helped[move.asks] == nil {
			helped[move.asks] = map[string]bool{}
		}
		helped[move.asks][move.For] = true
		needed[move.asks]++
	}
	fmt.Fprintf(to, "\n%s: moves that made room\n", r.Name)
	for i, asks := range slices.SortedFunc(maps.Keys(needed), func(a, b string) int {
		return cmp.Or(cmp.Compare(needed[b], needed[a]), cmp.Compare(a, b))
	}) {
		if i == maxMoved {
			fmt.Fprintf(to, "  and for %d more kinds, see -o json\n", len(needed)-i)
			break
		}
		fmt.Fprintf(to, "  %4d for %d x %s\n", needed[asks], len(helped[asks]), asks)
	}
	if lost > 0 {
		fmt.Fprintf(to, "  %4d in vain: the scheduler put a pod elsewhere than planned\n", lost)
	}
}
