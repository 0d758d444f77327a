package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// publishInterval is the shortest interval between writes to the node when nothing urgent has changed.
	publishInterval = 10 * time.Second
	// publishDelay is the shortest interval between any writes, and writeTimeout how long a write may take.
	publishDelay = 200 * time.Millisecond
	writeTimeout = 5 * time.Second
	// retryWrite is the first delay before a failed write is retried. An API server that rejects the agents of a thousand nodes, or is overloaded,
	// does not get a request per second from each.
	retryWrite = time.Second
)

// Publisher keeps the node object up to date: the inventory, missing labels, and conditions.
type Publisher struct {
	client   *apiServer
	node     string
	gpus     *GPUMonitor
	fitness  *Fitness
	folder   cdi.Folder
	slots    int
	metrics  *Metrics
	log      *slog.Logger
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	current *corev1.Node
	// wanted is true if the node had the agent's label since this agent started.
	wanted bool
	// rejection is when the node was closed after kubelet rejected a pod, by gpu-controller's clock, and rejectionSeen by the agent's.
	rejection     metav1.Time
	rejectionSeen time.Time
	seen          chan struct{}
}

func newPublisher(client *apiServer, o *Options, cards *GPUMonitor, fitness *Fitness, metrics *Metrics) (*Publisher, error) {
	p := &Publisher{client: client, node: o.NodeName, gpus: cards, fitness: fitness, folder: cdi.Folder{Path: o.CDIDir}, slots: o.SlotsPerGPU, metrics: metrics, log: o.Log,
		seen: make(chan struct{}, 1)}
	p.informer = cache.NewSharedIndexInformer(client.nodeListWatch(o.NodeName), &corev1.Node{}, 0, cache.Indexers{})
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.observeNode,
		UpdateFunc: func(_, object any) { p.observeNode(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching the node: %w", err)
	}
	return p, nil
}

// observeNode records the current node.
func (p *Publisher) observeNode(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	slots := 0
	if node.Labels[names.LabelSharing] == names.SharingMemory {
		slots = p.slots
	}
	p.gpus.SetSlotsPerGPU(slots)
	p.fitness.setKubeletReason(unfitKubelet(node))
	p.mu.Lock()
	p.current = node
	p.wanted = p.wanted || hasAgent(node)
	if closed := findRejection(node); closed != nil && !closed.LastTransitionTime.Equal(&p.rejection) {
		p.rejection, p.rejectionSeen = closed.LastTransitionTime, time.Now()
	}
	p.mu.Unlock()
	select {
	case p.seen <- struct{}{}:
	default:
	}
}

func hasAgent(node *corev1.Node) bool { return node.Labels[names.LabelAgent] == names.True }

// Run writes differences until ctx ends, and then clears them if an agent is no longer wanted on the node. Failed writes are retried; GPUs are
// allocated meanwhile.
func (p *Publisher) Run(ctx context.Context) error {
	go p.informer.RunWithContext(ctx)
	var last time.Time
	again := retryWrite
	for {
		view, viewChanged := p.gpus.CurrentView()
		_, _, fitChanged := p.fitness.CurrentState()
		wait, err := p.publishChanges(ctx, &view, &last)
		if err == nil {
			again = retryWrite
		} else if ctx.Err() == nil {
			p.log.Warn("Telling how the cards are", "error", err)
			wait, again = again, min(2*again, publishInterval)
		}
		select {
		case <-ctx.Done():
			p.clearNodeStatus(context.WithoutCancel(ctx))
			return nil
		case <-time.After(wait):
		case <-viewChanged:
		case <-fitChanged:
		case <-p.seen:
		}
		time.Sleep(publishDelay) // what changes together is written together
	}
}

// clearNodeStatus clears the agents' data from the node if its label was removed, which is why this agent ends and no other follows. Otherwise the scheduler
// would rely on data about GPUs that another plugin now allocates, and would skip those that were unhealthy. An agent that restarts, or is replaced
// by a newer one, changes nothing.
func (p *Publisher) clearNodeStatus(ctx context.Context) {
	p.mu.Lock()
	wanted := p.wanted
	p.mu.Unlock()
	if !wanted {
		return // the node had no label, so its absence means nothing
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	// The end may be reported before the change of the label.
	node, err := p.client.readNode(ctx, p.node)
	if err != nil || node == nil {
		return // the node's data then becomes stale: gpu-controller sees no heartbeat
	}
	if hasAgent(node) {
		p.writePaused(ctx, node)
		return
	}
	err = errors.Join(
		p.patchNode(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			names.AnnotationInventory: nil, names.AnnotationSlices: nil,
		}}}),
		p.patchNode(ctx, types.StrategicMergePatchType, map[string]any{"status": map[string]any{"conditions": noAgentConditions(metav1.Now())}}, "status"),
	)
	if err != nil {
		p.log.Warn("Taking back what the node says of its cards", "error", err)
		return
	}
	p.log.Info("Took back what the node says of its cards, as it is to have no agent any more")
}

// writePaused closes the node to pods with GPUs if NVIDIA's operator is why the agent ends. kubelet's own count follows later.
func (p *Publisher) writePaused(ctx context.Context, node *corev1.Node) {
	condition, paused := pausedCondition(node, metav1.Now())
	if !paused {
		return
	}
	conditions := map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}}
	if err := p.patchNode(ctx, types.StrategicMergePatchType, conditions, "status"); err != nil {
		p.log.Warn("Saying that NVIDIA's operator has paused the agent", "error", err)
	}
}

// publishChanges writes pending changes, and returns when to check again.
func (p *Publisher) publishChanges(ctx context.Context, view *View, last *time.Time) (time.Duration, error) {
	ready, known := p.fitness.readyCondition()
	p.mu.Lock()
	node, rejectionSeen := p.current, p.rejectionSeen
	p.mu.Unlock()
	if node == nil || !known || !view.Known {
		return publishInterval, nil
	}
	ready = keepRejection(node, ready, time.Since(rejectionSeen))
	records, err := p.sliceRecords(view)
	if err != nil {
		return publishInterval, err
	}
	due, err := computeChanges(node, view, records, ready, metav1.Now())
	if err != nil || due.isEmpty() {
		return publishInterval, err
	}
	if since := time.Since(*last); !due.urgent && since < publishInterval {
		return publishInterval - since, nil
	}
	*last = time.Now()
	err = p.writeChanges(ctx, &due)
	result := "ok"
	if err != nil {
		result = "error"
	}
	p.metrics.nodeWrites.WithLabelValues(result).Inc()
	return publishInterval, err
}

// sliceRecords returns the holders of devices if the node publishes them, as for MIG slices.
func (p *Publisher) sliceRecords(view *View) ([]binding.Record, error) {
	if !slices.ContainsFunc(view.Fleet.GPUs, func(card hardware.GPU) bool { return len(card.Slices) > 0 }) {
		return nil, nil
	}
	return p.folder.ReadRecords()
}

func (p *Publisher) writeChanges(ctx context.Context, due *changes) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var errs []error
	if len(due.labels)+len(due.annotations) > 0 {
		errs = append(errs, p.patchNode(ctx, types.MergePatchType, map[string]any{
			"metadata": map[string]any{"labels": due.labels, "annotations": due.annotations},
		}))
	}
	if len(due.conditions) > 0 {
		errs = append(errs, p.patchNode(ctx, types.StrategicMergePatchType, map[string]any{
			"status": map[string]any{"conditions": due.conditions},
		}, "status"))
	}
	return errors.Join(errs...)
}

func (p *Publisher) patchNode(ctx context.Context, kind types.PatchType, patch map[string]any, subresource ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return p.client.patchNode(ctx, p.node, kind, data, subresource...)
}
