package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inttree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpudevices"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
)

// bed is kube-scheduler's framework with our plugins and no others, on a snapshot and with nominated pods that a test
// sets.
type bed struct {
	framework.Framework
	nodes     cache.Indexer
	snapshot  fwk.SharedLister
	nominated []fwk.PodInfo
}

// lister hands the framework whatever snapshot the bed has now.
type lister struct {
	fwk.SharedLister
	of *bed
}

func (l lister) NodeInfos() fwk.NodeInfoLister       { return l.of.snapshot.NodeInfos() }
func (l lister) StorageInfos() fwk.StorageInfoLister { return l.of.snapshot.StorageInfos() }

// nominator hands out the nominated pods that the bed has now, for every node.
type nominator struct {
	fwk.PodNominator
	*bed
}

func (n nominator) NominatedPodsForNode(string) []fwk.PodInfo { return n.nominated }

func newBed(t testing.TB, change ...func(*configv1.GPUScoreArgs)) *bed {
	t.Helper()
	metrics.Register()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	b := &bed{nodes: factory.Core().V1().Nodes().Informer().GetIndexer()}
	ours := func(names ...string) (set config.PluginSet) {
		for _, name := range names {
			set.Enabled = append(set.Enabled, config.Plugin{Name: name, Weight: 1})
		}
		return set
	}
	score := &configv1.GPUScoreArgs{}
	score.SetDefaults()
	for _, change := range change {
		change(score)
	}
	profile := &config.KubeSchedulerProfile{
		SchedulerName: names.SchedulerName,
		Plugins: &config.Plugins{
			QueueSort: ours(queuesort.Name),
			PreFilter: ours(gpufilter.Name), Filter: ours(gpufilter.Name),
			PreScore: ours(gpuscore.Name), Score: ours(gpuscore.Name),
			Reserve: ours(gpudevices.Name), Bind: ours(gpudevices.Name),
		},
		PluginConfig: []config.PluginConfig{
			{Name: gpufilter.Name, Args: &configv1.GPUFilterArgs{}}, {Name: gpuscore.Name, Args: score},
		},
	}
	registry := plugins.Registry(plugins.Dependencies{Explain: explain.NewRecorder(explain.DefaultLimits)})
	if err := registry.Merge(inttree.NewInTreeRegistry()); err != nil {
		t.Fatal(err)
	}
	var err error
	b.Framework, err = runtime.NewFramework(t.Context(), registry, profile,
		runtime.WithInformerFactory(factory),
		runtime.WithSnapshotSharedLister(lister{of: b}),
		runtime.WithPodNominator(nominator{bed: b}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// set replaces nodes and pods.
func (b *bed) set(t testing.TB, nodes []*corev1.Node, pods []*corev1.Pod) []fwk.NodeInfo {
	t.Helper()
	objects := make([]any, len(nodes))
	for i := range nodes {
		objects[i] = nodes[i]
	}
	if err := b.nodes.Replace(objects, ""); err != nil {
		t.Fatal(err)
	}
	b.snapshot = schedulercache.NewSnapshot(pods, nodes)
	list, err := b.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return list
}
