package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// engine is kube-scheduler without its queue and without an API server: its framework, its plugins and ours, its cache
// of nodes and its snapshot. It works in one goroutine, so that the order of nodes never varies.
type engine struct {
	scheduler *scheduler.Scheduler
	nodes     toolscache.Indexer
	pods      toolscache.Indexer
	bindings  *bindings
	random    *rand.Rand
}

func newEngine(ctx context.Context, cfg *config.KubeSchedulerConfiguration, seed int64) (*engine, error) {
	bindings := &bindings{}
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://simulation.invalid", QPS: -1},
		&http.Client{Transport: bindings})
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nobody := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	sched, err := scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(nobody),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry()),
		scheduler.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	return &engine{
		scheduler: sched,
		nodes:     factory.Core().V1().Nodes().Informer().GetIndexer(),
		pods:      factory.Core().V1().Pods().Informer().GetIndexer(),
		bindings:  bindings,
		random:    rand.New(rand.NewSource(seed)), //nolint:gosec // it breaks ties, and must be the same each time
	}, nil
}

// load puts nodes, and the pods on them, in the scheduler's cache, as its informers would.
func (e *engine) load(cluster Cluster) error {
	if len(cluster.Nodes) == 0 {
		return errors.New("it has no nodes")
	}
	known := sets.New[string]()
	for _, node := range cluster.Nodes {
		if known.Has(node.Name) {
			return fmt.Errorf("node %s is there twice", node.Name)
		}
		known.Insert(node.Name)
		if err := e.nodes.Add(node); err != nil {
			return fmt.Errorf("adding node %s: %w", node.Name, err)
		}
		e.scheduler.Cache.AddNode(klog.Background(), node)
	}
	for _, pod := range cluster.Pods {
		if !known.Has(pod.Spec.NodeName) {
			return fmt.Errorf("pod %s/%s is on node %q, which is not there", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
		if err := errors.Join(e.pods.Add(pod), e.scheduler.Cache.AddPod(klog.Background(), pod)); err != nil {
			return fmt.Errorf("adding pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// arrive makes a pod known that waits for a node.
func (e *engine) arrive(pod *corev1.Pod) error {
	if err := e.pods.Add(pod); err != nil {
		return fmt.Errorf("adding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// place runs one scheduling cycle. It returns the pod as bound, or nil and why it fits nowhere.
func (e *engine) place(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, []string, error) {
	fw, ok := e.scheduler.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, []string{fmt.Sprintf("the configuration has no profile for schedulerName %q", pod.Spec.SchedulerName)}, nil
	}
	c := cycle{Framework: fw, state: framework.NewCycleState(), pod: pod, random: e.random}
	node, reasons, err := c.run(ctx, e.scheduler.Cache)
	if err != nil || node == "" {
		return nil, reasons, err
	}
	if status := fw.RunBindPlugins(ctx, c.state, pod, node); !status.IsSuccess() {
		return nil, nil, fmt.Errorf("binding: %w", status.AsError())
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	for key, value := range e.bindings.take() {
		if bound.Annotations == nil {
			bound.Annotations = map[string]string{}
		}
		bound.Annotations[key] = value
	}
	if err := errors.Join(e.pods.Update(bound), e.scheduler.Cache.AddPod(klog.Background(), bound)); err != nil {
		return nil, nil, fmt.Errorf("adding the pod to node %s: %w", node, err)
	}
	fw.RunPostBindPlugins(ctx, c.state, bound, node)
	return bound, nil, nil
}

// remove takes a pod away that has ended. Unreserve makes the plugins forget it.
func (e *engine) remove(ctx context.Context, pod *corev1.Pod) error {
	if fw, ok := e.scheduler.Profiles[pod.Spec.SchedulerName]; ok {
		fw.RunReservePluginsUnreserve(ctx, framework.NewCycleState(), pod, pod.Spec.NodeName)
	}
	if err := errors.Join(e.pods.Delete(pod), e.scheduler.Cache.RemovePod(klog.Background(), pod)); err != nil {
		return fmt.Errorf("removing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// cycle is one pod's turn.
type cycle struct {
	framework.Framework
	state  fwk.CycleState
	pod    *corev1.Pod
	random *rand.Rand
}

// run returns the node that the pod is reserved on, or none and the reasons.
func (c *cycle) run(ctx context.Context, cache schedulercache.Cache) (string, []string, error) {
	snapshot, ok := c.SnapshotSharedLister().(*schedulercache.Snapshot)
	if !ok {
		return "", nil, errors.New("the scheduler's snapshot is of another kind than expected")
	}
	if err := cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		return "", nil, fmt.Errorf("taking a snapshot: %w", err)
	}
	all, err := snapshot.NodeInfos().List()
	if err != nil {
		return "", nil, fmt.Errorf("listing the snapshot: %w", err)
	}
	fitting, reasons, err := c.filter(ctx, all)
	if err != nil || len(fitting) == 0 {
		return "", reasons, err
	}
	node, err := c.choose(ctx, fitting)
	if err != nil {
		return "", nil, err
	}
	if status := c.RunReservePluginsReserve(ctx, c.state, c.pod, node); !status.IsSuccess() {
		return "", nil, fmt.Errorf("reserving on node %s: %w", node, status.AsError())
	}
	return node, nil, nil
}

// filter returns the nodes that can take the pod, in the order of the snapshot, or why none can.
func (c *cycle) filter(ctx context.Context, all []fwk.NodeInfo) ([]fwk.NodeInfo, []string, error) {
	candidates, status, _ := c.RunPreFilterPlugins(ctx, c.state, c.pod)
	if status.IsRejected() {
		return nil, status.Reasons(), nil
	}
	if !status.IsSuccess() {
		return nil, nil, fmt.Errorf("running PreFilter: %w", status.AsError())
	}
	var fitting []fwk.NodeInfo
	why := reasons{}
	for _, node := range all {
		if !candidates.AllNodes() && !candidates.NodeNames.Has(node.Node().Name) {
			continue
		}
		switch status := c.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, node); {
		case status.IsSuccess():
			fitting = append(fitting, node)
		case status.IsRejected():
			why.add(status.Reasons())
		default:
			return nil, nil, fmt.Errorf("filtering node %s: %w", node.Node().Name, status.AsError())
		}
	}
	return fitting, why.list(), nil
}

// choose returns the node with the highest score, a random one of equals.
func (c *cycle) choose(ctx context.Context, nodes []fwk.NodeInfo) (string, error) {
	if len(nodes) == 1 {
		return nodes[0].Node().Name, nil
	}
	if status := c.RunPreScorePlugins(ctx, c.state, c.pod, nodes); !status.IsSuccess() {
		return "", fmt.Errorf("running PreScore: %w", status.AsError())
	}
	scores, status := c.RunScorePlugins(ctx, c.state, c.pod, nodes)
	if !status.IsSuccess() {
		return "", fmt.Errorf("scoring: %w", status.AsError())
	}
	best, equals := 0, 1
	for i := 1; i < len(scores); i++ {
		switch {
		case scores[i].TotalScore > scores[best].TotalScore:
			best, equals = i, 1
		case scores[i].TotalScore == scores[best].TotalScore:
			if equals++; c.random.Intn(equals) == 0 {
				best = i
			}
		}
	}
	return scores[best].Name, nil
}
