package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

// Comparison is how many decisions of a recording a simulation reproduces, each from the recorded state of the cluster: a difference does not cause
// others.
type Comparison struct {
	// Name is that of the candidate.
	Name string `json:"name"`
	// Placements is how many pods the scheduler placed, SameNode on how many of them the simulation agrees about the node,
	// and SamePlace about the node and every GPU.
	Placements int `json:"placements"`
	SameNode   int `json:"sameNode"`
	SamePlace  int `json:"samePlace"`
	// Refusals is how often the scheduler found no place for a pod, SameRefusals how often the simulation finds none either.
	Refusals     int `json:"refusals"`
	SameRefusals int `json:"sameRefusals"`
	// JustLeft is how many of SameRefusals are reproduced only beside pods that had left before the refusal was reported: unlike a binding, a refusal
	// does not record what the scheduler knew when it decided.
	JustLeft int `json:"justLeft"`
	// ReproducedPercent is the share of placements and refusals that are the same.
	ReproducedPercent float64 `json:"reproducedPercent"`

	Differences []Difference `json:"differences"`
}

// Difference is a decision that is not reproduced.
type Difference struct {
	Pod       string   `json:"pod"`
	Recorded  Decision `json:"recorded"`
	Simulated Decision `json:"simulated"`
	// Reasons are why the simulation finds no node, if it does not.
	Reasons []string `json:"reasons,omitempty"`
}

// Verify repeats the decisions of a recording. Pods of other schedulers are placed as recorded.
func Verify(ctx context.Context, rec *recording.Recording, candidate Candidate, options Options) (*Comparison, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cluster, waiting := initialCluster(rec)
	engine, err := newEngine(ctx, candidate.Config, cluster, options)
	if err != nil {
		return nil, fmt.Errorf("starting the scheduler of %s: %w", candidate.Name, err)
	}
	v := &verifier{
		engine: engine, result: Comparison{Name: candidate.Name, Differences: []Difference{}}, decisions: recordedDecisions(rec),
		waiting: map[types.UID]*corev1.Pod{}, running: map[types.UID]*corev1.Pod{},
	}
	for _, pod := range cluster.Pods {
		v.running[pod.UID] = pod
	}
	for _, pod := range waiting {
		if err := v.addPending(pod); err != nil {
			return nil, err
		}
	}
	for i := range rec.Events {
		v.event = i
		if err := v.catchUp(ctx, rec.Events[i].Revision); err != nil {
			return nil, err
		}
		if err := v.applyEvent(ctx, &rec.Events[i]); err != nil {
			return nil, err
		}
		if options.Progress != nil {
			options.Progress(i + 1)
		}
	}
	return v.buildComparison(), nil
}

// verifier follows a recording.
type verifier struct {
	engine *engine
	result Comparison
	// decisions are those still to be made, and number is that of the last one.
	decisions []recorded
	number    int64
	waiting   map[types.UID]*corev1.Pod
	running   map[types.UID]*corev1.Pod
	// event is the number of the current event, departed are the pods that left with the last ones.
	event    int
	departed []departure
}

// catchUp repeats the decisions that were made before the scheduler knew a revision.
func (v *verifier) catchUp(ctx context.Context, revision int64) error {
	for len(v.decisions) > 0 && v.decisions[0].seen < revision {
		decision := v.decisions[0]
		v.decisions = v.decisions[1:]
		if decision.number > 0 { // attempts outside of the recording, or missing from it, have no number
			v.engine.attempts.SetLast(decision.number - 1)
			v.number = decision.number
		}
		if err := v.verifyDecision(ctx, decision.pod); err != nil {
			return err
		}
	}
	return nil
}

// applyEvent takes in one event.
func (v *verifier) applyEvent(ctx context.Context, event *recording.Event) error {
	switch {
	case event.Node != nil:
		return v.engine.changeNode(event.Type, event.Node)
	case event.Pod == nil:
		return nil // PodGroups are known from the start
	}
	pod := event.Pod
	waited, isWaiting := v.waiting[pod.UID]
	_, isRunning := v.running[pod.UID]
	switch {
	case event.Type == watch.Deleted || gpu.HasEnded(pod):
		return v.removePod(ctx, pod.UID)
	case isRunning:
		return nil
	case pod.Spec.NodeName != "":
		return v.placeRecorded(pod) // not a decision: it came with a node
	case isWaiting:
		return v.updatePending(ctx, waited, pod)
	}
	return v.addPending(pod)
}

func (v *verifier) addPending(pod *corev1.Pod) error {
	v.waiting[pod.UID] = pod
	v.engine.nominations.updateNomination(pod)
	return v.engine.addPendingPod(pod)
}

// placeRecorded puts a pod where it was put.
func (v *verifier) placeRecorded(pod *corev1.Pod) error {
	v.engine.nominations.DeleteNominatedPodIfExists(pod)
	delete(v.waiting, pod.UID)
	v.running[pod.UID] = pod
	return v.engine.addBoundPod(pod)
}

// removePod takes a pod away, wherever it is.
func (v *verifier) removePod(ctx context.Context, uid types.UID) error {
	if pod, ok := v.running[uid]; ok {
		delete(v.running, uid)
		v.departed = append(v.departed, departure{pod, v.event})
		return v.engine.removeBoundPod(ctx, pod)
	}
	if pod, ok := v.waiting[uid]; ok {
		delete(v.waiting, uid)
		v.engine.nominations.DeleteNominatedPodIfExists(pod)
		return v.engine.pods.Delete(pod)
	}
	return nil
}

// updatePending applies a change of a waiting pod: it was replaced, was nominated for a node, or was refused.
func (v *verifier) updatePending(ctx context.Context, before, pod *corev1.Pod) error {
	v.waiting[pod.UID] = pod
	v.engine.nominations.updateNomination(pod)
	if err := v.engine.addPendingPod(pod); err != nil {
		return err
	}
	if now := refusalMessage(pod); now == "" || now == refusalMessage(before) {
		return nil
	}
	return v.verifyRefusal(ctx, before)
}

// refusalMessage identifies a refusal; "" is none.
func refusalMessage(pod *corev1.Pod) string {
	c := condition.OfPod(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return ""
	}
	return c.Message
}

// verifyDecision repeats the decision about a pod, and then applies the recorded one.
func (v *verifier) verifyDecision(ctx context.Context, placed *corev1.Pod) error {
	pod, ok := v.waiting[placed.UID]
	if !ok {
		return nil // it comes with a node, and is placed on arrival
	}
	if _, ours := v.engine.podProfile(pod); !ours {
		return v.placeRecorded(placed)
	}
	got, reasons, err := v.engine.chooseNode(ctx, pod)
	if err != nil {
		return fmt.Errorf("deciding about pod %s: %w", klog.KObj(pod), err)
	}
	want := recordedDecision(placed)
	v.result.Placements++
	if got.Node == want.Node {
		v.result.SameNode++
	}
	if got == want {
		v.result.SamePlace++
	} else {
		v.result.Differences = append(v.result.Differences, Difference{Pod: want.Pod, Recorded: want, Simulated: got, Reasons: reasons})
	}
	return v.placeRecorded(placed)
}

func recordedDecision(pod *corev1.Pod) Decision {
	return Decision{Pod: podKey(pod).String(), Node: pod.Spec.NodeName, Devices: pod.Annotations[names.AnnotationGPUDevices]}
}

func (v *verifier) buildComparison() *Comparison {
	r := &v.result
	if all := r.Placements + r.Refusals; all > 0 {
		r.ReproducedPercent = 100 * float64(r.SamePlace+r.SameRefusals) / float64(all)
	}
	return r
}

// changeNode takes in what became of a node.
func (e *engine) changeNode(kind watch.EventType, node *corev1.Node) error {
	before, exists, err := e.nodes.GetByKey(node.Name)
	if err != nil {
		return fmt.Errorf("changing node %s: %w", node.Name, err)
	}
	old, _ := before.(*corev1.Node)
	switch {
	case kind == watch.Deleted:
		if !exists {
			return nil
		}
		return errors.Join(e.nodes.Delete(old), e.scheduler.Cache.RemoveNode(klog.Background(), old))
	case !exists:
		return e.addNode(node)
	}
	e.scheduler.Cache.UpdateNode(klog.Background(), old, node)
	return e.nodes.Update(node)
}

// initialCluster returns the initial cluster of a recording, and the waiting pods.
func initialCluster(rec *recording.Recording) (Cluster, []*corev1.Pod) {
	cluster := Cluster{Nodes: rec.Nodes, Groups: slices.Clone(rec.Groups)}
	for i := range rec.Events {
		if group := rec.Events[i].Group; group != nil && rec.Events[i].Type == watch.Added {
			cluster.Groups = append(cluster.Groups, group)
		}
	}
	var waiting []*corev1.Pod
	for _, pod := range rec.Pods {
		switch {
		case gpu.HasEnded(pod):
		case pod.Spec.NodeName == "":
			waiting = append(waiting, pod)
		default:
			cluster.Pods = append(cluster.Pods, pod)
		}
	}
	return cluster, waiting
}
