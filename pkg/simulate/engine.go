package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/explain"
	quotas "g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
	"g8s.host/gpu-scheduler/pkg/survival"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// engine is kube-scheduler without its queue and without an API server: its algorithm, its framework, its plugins and
// ours, its cache of nodes and its snapshot. It works in one goroutine.
type engine struct {
	scheduler *scheduler.Scheduler
	informers informers.SharedInformerFactory
	nodes     toolscache.Indexer
	pods      toolscache.Indexer
	api       *apiServer
	attempts  cycle.Attempts
	explain   *explain.Recorder // nil records nothing
	// nominations are the pods that wait for their victims.
	nominations *nominations
	// now is the scheduler's clock, the zero time if it stands still.
	now time.Time
	// past is how long jobs have run before, nil if unknown.
	past *survival.History
	// quotas are updated with each pod directly, as no informer runs.
	quotas *quotas.Quotas
	// held are the members of gangs that have a place and wait for the others, in order of their decisions.
	held []*permitWait
}

// address is the address of the simulated API server. It is never resolved.
const address = "http://simulation.invalid"

func newEngine(ctx context.Context, cfg *config.KubeSchedulerConfiguration, cluster Cluster, options Options) (*engine, error) {
	e, err := newEmptyEngine(ctx, cfg, cluster.Groups, options)
	if err != nil {
		return nil, err
	}
	return e, e.loadCluster(cluster)
}

func newEmptyEngine(
	ctx context.Context, cfg *config.KubeSchedulerConfiguration, groups []*gangsv1.PodGroup, options Options,
) (*engine, error) {
	e := &engine{api: &apiServer{}, nominations: newNominations(), explain: options.Explain, now: options.Start, past: options.Past}
	e.quotas = quotas.New(func() time.Time { return e.now })
	restConfig := &rest.Config{Host: address, QPS: -1, Transport: e.api}
	client, err := kubernetes.NewForConfigAndClient(restConfig, &http.Client{Transport: e.api})
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	e.informers = informers.NewSharedInformerFactory(client, 0)
	if err := coscheduling.RegisterGroups(e.informers, groups); err != nil {
		return nil, err
	}
	nobody := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	e.scheduler, err = scheduler.New(ctx, client, e.informers, nil, profile.NewRecorderFactory(nobody),
		scheduler.WithProfiles(allNodes(cfg.Profiles)...),
		scheduler.WithKubeConfig(restConfig),
		scheduler.WithFrameworkOutOfTreeRegistry(e.pluginRegistry()),
		scheduler.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	for _, profile := range e.scheduler.Profiles {
		profile.SetPodNominator(e.nominations)
	}
	plugins.Wrap(e.scheduler, plugins.Options{Seed: uint64(options.Seed)}) //nolint:gosec // any bits will do
	e.nodes, e.pods = e.informers.Core().V1().Nodes().Informer().GetIndexer(), e.informers.Core().V1().Pods().Informer().GetIndexer()
	return e, nil
}

// Plugins returns the plugins of each profile by extension point, in the order in which they run: as the framework lists
// them once it has made them all. A plugin that cannot be made, for its arguments or because there is none of its name, is
// an error.
func Plugins(ctx context.Context, cfg *config.KubeSchedulerConfiguration) (map[string]*config.Plugins, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // what plugins began beside
	e, err := newEmptyEngine(ctx, cfg, nil, Options{})
	if err != nil {
		return nil, err
	}
	all := map[string]*config.Plugins{}
	for name, profile := range e.scheduler.Profiles {
		all[name] = profile.ListPlugins()
	}
	return all, nil
}

// allNodes makes every profile score all nodes. With percentageOfNodesToScore below 100, the order in which goroutines end would decide which nodes
// are scored.
func allNodes(profiles []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	all := make([]config.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		all[i] = *profiles[i].DeepCopy()
		all[i].PercentageOfNodesToScore = ptr.To[int32](100)
	}
	return all
}

// loadCluster puts nodes, and the pods on them, in the scheduler's cache, as its informers would.
func (e *engine) loadCluster(cluster Cluster) error {
	if len(cluster.Nodes) == 0 {
		return errors.New("loading the cluster: it has no nodes")
	}
	if err := follow.SeedInformer(e.informers, cluster.Reservations...); err != nil {
		return fmt.Errorf("loading the cluster: %w", err)
	}
	if err := quotas.SeedInformer(e.informers, cluster.Quotas...); err != nil {
		return fmt.Errorf("loading the cluster: %w", err)
	}
	known := sets.New[string]()
	for _, node := range cluster.Nodes {
		if known.Has(node.Name) {
			return fmt.Errorf("loading the cluster: node %s is there twice", node.Name)
		}
		known.Insert(node.Name)
		if err := e.addNode(node); err != nil {
			return err
		}
	}
	budgets := e.informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
	for _, budget := range cluster.Budgets {
		if err := budgets.Add(budget); err != nil {
			return fmt.Errorf("adding disruption budget %s/%s: %w", budget.Namespace, budget.Name, err)
		}
	}
	for _, pod := range cluster.Pods {
		if !known.Has(pod.Spec.NodeName) {
			return fmt.Errorf("loading the cluster: pod %s is on node %q, which is not there", klog.KObj(pod), pod.Spec.NodeName)
		}
		if err := e.addBoundPod(pod); err != nil {
			return err
		}
	}
	e.quotas.UseManualUpdates()
	return nil
}

func (e *engine) addNode(node *corev1.Node) error {
	if err := e.nodes.Add(node); err != nil {
		return fmt.Errorf("adding node %s: %w", node.Name, err)
	}
	e.scheduler.Cache.AddNode(klog.Background(), node)
	return nil
}

// addBoundPod makes a pod known that has a node.
func (e *engine) addBoundPod(pod *corev1.Pod) error {
	if err := errors.Join(e.pods.Update(pod), e.scheduler.Cache.AddPod(klog.Background(), pod)); err != nil {
		return fmt.Errorf("adding pod %s to node %s: %w", klog.KObj(pod), pod.Spec.NodeName, err)
	}
	e.quotas.UpdatePod(pod)
	return nil
}

// addPendingPod adds a pod that waits for a node.
func (e *engine) addPendingPod(pod *corev1.Pod) error {
	if err := e.pods.Add(pod); err != nil {
		return fmt.Errorf("adding pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

// removeBoundPod removes an ended pod. Unreserve makes the plugins forget it.
func (e *engine) removeBoundPod(ctx context.Context, pod *corev1.Pod) error {
	if fw, ok := e.podProfile(pod); ok {
		fw.RunReservePluginsUnreserve(ctx, framework.NewCycleState(), pod, pod.Spec.NodeName)
	}
	if err := errors.Join(e.pods.Delete(pod), e.scheduler.Cache.RemovePod(klog.Background(), pod)); err != nil {
		return fmt.Errorf("removing pod %s: %w", klog.KObj(pod), err)
	}
	e.quotas.UpdatePod(pod)
	return nil
}

// removePendingPod takes a pod away that has no node.
func (e *engine) removePendingPod(pod *corev1.Pod) error {
	if err := e.pods.Delete(pod); err != nil {
		return fmt.Errorf("removing pod %s: %w", klog.KObj(pod), err)
	}
	if fw, ok := e.podProfile(pod); ok {
		for _, plugin := range fw.PreEnqueuePlugins() {
			if gangs, ok := plugin.(interface{ PodGone(pod *corev1.Pod) }); ok {
				gangs.PodGone(pod)
			}
		}
	}
	return nil
}

// podProfile returns the profile that places a pod.
func (e *engine) podProfile(pod *corev1.Pod) (framework.Framework, bool) {
	fw, ok := e.scheduler.Profiles[pod.Spec.SchedulerName]
	return fw, ok
}
