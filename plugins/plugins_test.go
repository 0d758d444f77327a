package plugins_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
	"g8s.host/gpu-scheduler/test/upstream"
)

// shippedConfig is the configuration that production runs.
const shippedConfig = "../manifests/scheduler/scheduler-config.yaml"

func loadShipped(t testing.TB) *config.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := options.LoadConfigFromFile(klog.Background(), shippedConfig)
	if err != nil {
		t.Fatalf("loading %s: %v", shippedConfig, err)
	}
	return cfg
}

// nowhere is an API server that does not answer. Only pods of a gang would need it, whose groups are read from there.
var nowhere = &rest.Config{Host: "https://127.0.0.1:1"}

// cluster is kube-scheduler's own algorithm with our registry and the shipped profile, on nodes and pods in
// memory: everything but the queue and the API server.
type cluster struct {
	t         testing.TB
	scheduler *scheduler.Scheduler
}

func newCluster(t testing.TB, nodes ...*corev1.Node) *cluster {
	t.Helper()
	return newClusterWith(t, nil, nodes...)
}

// newClusterWith appends plugins to the shipped profile.
func newClusterWith(t testing.TB, more runtime.Registry, nodes ...*corev1.Node) *cluster {
	t.Helper()
	return newClusterFor(t, plugins.Dependencies{Explain: explain.NewRecorder(explain.DefaultLimits)}, more, nodes...)
}

// newClusterFor does so with what the plugins of a test depend on.
func newClusterFor(t testing.TB, dependencies plugins.Dependencies, more runtime.Registry, nodes ...*corev1.Node) *cluster {
	t.Helper()
	profiles := loadShipped(t).Profiles
	registry := plugins.Registry(dependencies)
	for name, factory := range more {
		registry[name] = factory
		profiles[0].Plugins.MultiPoint.Enabled = append(profiles[0].Plugins.MultiPoint.Enabled, config.Plugin{Name: name})
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	noEvents := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	sched, err := scheduler.New(t.Context(), client, factory, nil, noEvents,
		scheduler.WithKubeConfig(nowhere),
		scheduler.WithProfiles(profiles...), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		t.Fatalf("building the scheduler: %v", err)
	}
	for _, node := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
			t.Fatal(err)
		}
		sched.Cache.AddNode(klog.Background(), node)
	}
	return &cluster{t: t, scheduler: sched}
}

// try returns the node that the scheduler chooses for the pod.
func (c *cluster) try(pod *corev1.Pod) (string, error) {
	result, err := upstream.Choose(c.t.Context(), c.scheduler, names.SchedulerName, framework.NewCycleState(), pod)
	return result.SuggestedHost, err
}

// place schedules the pod and puts it on the chosen node.
func (c *cluster) place(pod *st.PodWrapper) string {
	c.t.Helper()
	node, err := c.try(pod.Obj())
	if err != nil {
		c.t.Fatalf("placing a pod: %v", err)
	}
	c.put(pod, node)
	return node
}

func (c *cluster) put(pod *st.PodWrapper, node string) {
	c.t.Helper()
	if err := c.scheduler.Cache.AddPod(klog.Background(), pod.Node(node).Obj()); err != nil {
		c.t.Fatal(err)
	}
}

var machine = map[corev1.ResourceName]string{"cpu": "64", "memory": "512Gi", "pods": "110"}

func cpuNode(name string) *corev1.Node { return st.MakeNode().Name(name).Capacity(machine).Obj() }

func gpuNode(name, interconnect string) *corev1.Node {
	resources := map[corev1.ResourceName]string{names.ResourceGPU: "8"}
	for resource, quantity := range machine {
		resources[resource] = quantity
	}
	return st.MakeNode().Name(name).Capacity(resources).Label(names.LabelGPUType, "A100-80G").
		Label(names.LabelInterconnect, interconnect).Obj()
}

func pod(name, cpu, gpus string) *st.PodWrapper {
	requests := map[corev1.ResourceName]string{"cpu": cpu, "memory": "1Gi"}
	if gpus != "" {
		requests[names.ResourceGPU] = gpus
	}
	return st.MakePod().Name(name).UID(name).Namespace("default").SchedulerName(names.SchedulerName).Req(requests)
}

func TestGPUPodsArePacked(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"), gpuNode("b", "pcie"), gpuNode("c", "pcie"), cpuNode("cpu"))
	used := map[string]int{}
	for i := range 8 {
		used[c.place(pod(fmt.Sprintf("p%d", i), "6", "1"))]++
	}
	if len(used) != 1 {
		t.Errorf("8 pods of one GPU went to %v, want them on one node of 8", used)
	}
}

// TestDefaultScorersDoNotUndoOurs makes the better GPU node worse for each of the default scorers: its CPU is
// nearly used up, it has not the image, it carries a soft taint, and the pod's soft affinity is elsewhere.
func TestDefaultScorersDoNotUndoOurs(t *testing.T) {
	const image = "registry.example.com/train:v1"
	packed, empty := gpuNode("packed", "pcie"), gpuNode("empty", "pcie")
	packed.Spec.Taints = []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule}}
	empty.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: 20 << 30}}
	empty.Labels["wished"] = "yes"
	c := newCluster(t, packed, empty)
	c.put(pod("busy", "56", "1"), "packed")

	wished := pod("wished", "6", "1")
	wished.Spec.Containers[0].Image = image
	wished.NodeAffinity(&corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: st.MakeNodeSelector().In("wished", []string{"yes"}, st.NodeSelectorTypeMatchExpressions).Obj().NodeSelectorTerms[0],
		}},
	})
	if got := c.place(wished); got != "packed" {
		t.Errorf("the pod went to %q, want it beside the other GPU pod", got)
	}
}

func TestShippedWeightOutweighsTheDefaultScorers(t *testing.T) {
	var ours, others int32
	for _, plugin := range newCluster(t).scheduler.Profiles[names.SchedulerName].ListPlugins().Score.Enabled {
		if plugin.Name == gpuscore.Name {
			ours = plugin.Weight
		} else {
			others += plugin.Weight
		}
	}
	// A difference of one point of ours against the largest possible difference of all others.
	if others == 0 || ours <= others*100 {
		t.Errorf("weight of GPUScore is %d, want more than 100 times the %d of the other scorers", ours, others)
	}
}

func TestCPUPodsAreKeptOffGPUNodes(t *testing.T) {
	c := newCluster(t, gpuNode("gpu", "pcie"), cpuNode("cpu1"), cpuNode("cpu2"))
	used := map[string]int{}
	for i := range 10 {
		used[c.place(pod(fmt.Sprintf("p%d", i), "6", ""))]++
	}
	if used["gpu"] > 0 || used["cpu1"] == 0 || used["cpu2"] == 0 {
		t.Errorf("10 CPU pods went to %v, want them spread over the CPU nodes only", used)
	}
	c.put(pod("big1", "30", ""), "cpu1")
	c.put(pod("big2", "30", ""), "cpu2")
	if got := c.place(pod("last", "30", "")); got != "gpu" {
		t.Errorf("with the CPU nodes full the pod went to %q, want the GPU node rather than nowhere", got)
	}
}

func TestNVLinkIsKeptForPodsOfSeveralGPUs(t *testing.T) {
	nodes := []*corev1.Node{gpuNode("nvlink", "nvlink"), gpuNode("pcie", "pcie")}
	if got := newCluster(t, nodes...).place(pod("one", "1", "1")); got != "pcie" {
		t.Errorf("a pod of one GPU went to %q", got)
	}
	if got := newCluster(t, nodes...).place(pod("four", "1", "4")); got != "nvlink" {
		t.Errorf("a pod of four GPUs went to %q", got)
	}
}

func TestMessagesThatUsersSee(t *testing.T) {
	shrunk := gpuNode("b", "pcie")
	shrunk.Labels[names.LabelPool] = "training"
	full := gpuNode("a", "pcie")
	full.Labels[names.LabelPool] = "training"
	full.Labels[corev1.LabelTopologyZone] = "west"
	const most = "9223372036854775807"
	tests := map[string]struct {
		pod  *st.PodWrapper
		want string
	}{
		"no such type in the pool": {
			pod:  pod("p", "1", "1").Label(names.LabelPool, "training").Annotation(names.AnnotationGPUTypes, "H100"),
			want: `0/3 nodes are available: no node of GPU pool "training" has GPU type "H100" (types: A100-80G).`,
		},
		"no such pool": {
			pod:  pod("p", "1", "1").Label(names.LabelPool, "traning-gpus"),
			want: `0/3 nodes are available: no node is in GPU pool "traning-gpus" (pools: default, training).`,
		},
		"a full pool": {
			pod: pod("p", "1", "8").Label(names.LabelPool, "training"),
			want: "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [GPUFilter], " +
				"2 node(s) have too few free GPUs.",
		},
		"a full pool of which the pod asks for one node": { // evictions are not tried on the other
			pod: pod("p", "1", "8").Label(names.LabelPool, "training").NodeSelector(map[string]string{corev1.LabelTopologyZone: "west"}),
			want: "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, " +
				"1 node(s) didn't satisfy plugin(s) [GPUFilter], 1 node(s) have too few free GPUs.",
		},
		"more GPUs than any node has": {
			pod: pod("p", "1", "9").Label(names.LabelPool, "training"),
			want: "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [GPUFilter], " +
				"2 node(s) have fewer GPUs than the pod asks for.",
		},
		"GPUs that overflow": {
			pod:  pod("p", "1", most).Req(map[corev1.ResourceName]string{names.ResourceGPU: most}),
			want: "0/3 nodes are available: the sum of nvidia.com/gpu over all containers exceeds " + most + ".",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, full, shrunk, cpuNode("cpu"))
			c.put(pod("x", "1", "1"), "a")
			c.put(pod("y", "1", "1"), "b")
			node, err := c.try(tc.pod.Obj())
			if err == nil || err.Error() != tc.want {
				t.Errorf("placed on %q with the message\n  %v\nwant\n  %s", node, err, tc.want)
			}
		})
	}
}

// TestRejectionAtPreFilterLeavesPostFilterSound: DynamicResources fails in PostFilter when its PreFilter did not
// run, so the profile must not let ours reject a pod before it.
func TestRejectionAtPreFilterLeavesPostFilterSound(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	state, profile := framework.NewCycleState(), c.scheduler.Profiles[names.SchedulerName]
	rejected := pod("p", "1", "1").Annotation(names.AnnotationGPUTypes, "H100").Obj()
	if err := profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(rejected); err != nil {
		t.Fatal(err)
	}
	if node, err := c.try(rejected); err == nil { // which also takes the snapshot that preemption reads
		t.Fatalf("placed on %s, want a rejection", node)
	}
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), state, rejected); !status.IsRejected() {
		t.Fatalf("PreFilter: %v, want a rejection", status)
	}
	nodes := framework.NewDefaultNodeToStatus()
	if _, status := profile.RunPostFilterPlugins(t.Context(), state, rejected, nodes); !status.IsRejected() {
		t.Errorf("PostFilter: %v, want a rejection and no error", status)
	}
}

func TestMetricsShowOnTheSchedulersEndpoint(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"), gpuNode("b", "pcie"))
	c.place(pod("p", "1", "1"))
	if _, err := c.try(pod("q", "1", "9").Obj()); err == nil {
		t.Fatal("a pod of 9 GPUs was placed on a node of 8")
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"gpu_scheduler_filter_candidate_nodes":       true,
		"gpu_scheduler_filter_node_rejections_total": true,
		"gpu_scheduler_filter_pod_rejections_total":  true,
		"gpu_scheduler_score_pods_total":             true,
	}
	for _, family := range families {
		delete(want, family.GetName())
	}
	if len(want) > 0 {
		t.Errorf("missing metrics: %v", want)
	}
}

// TestEveryPluginSignsPods matters where PodTopologySpread does (`defaultingType: List`), because one plugin that does not turns batching off for
// all pods. LeastFragmentation does not, for each pod changes what the next is worth; the strategy of notebooks does.
func TestEveryPluginSignsPods(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	notebook, signing := pod("p", "1", "1").Label(names.LabelJobType, configv1.JobTypeNotebook).Obj(), 0
	registry := plugins.Registry(plugins.Dependencies{})
	for _, plugin := range c.scheduler.Profiles[names.SchedulerName].EnqueueExtensions() {
		_, filters := plugin.(fwk.FilterPlugin)
		_, scores := plugin.(fwk.ScorePlugin)
		if registry[plugin.Name()] == nil || !filters && !scores { // the others say nothing of nodes
			continue
		}
		signer, ok := plugin.(fwk.SignPlugin)
		if !ok {
			t.Errorf("%s signs no pods", plugin.Name())
			continue
		}
		if _, status := signer.SignPod(t.Context(), notebook); !status.IsSuccess() {
			t.Errorf("%s does not sign the pod of a notebook: %v", plugin.Name(), status)
		}
		signing++
	}
	if signing < 4 {
		t.Errorf("%d of our plugins were asked, so the test shows little", signing)
	}
}

// TestProfilesThatAreAlikeShareThePlugins: what one of them has decided the other knows.
func TestProfilesThatAreAlikeShareThePlugins(t *testing.T) {
	profiles := newCluster(t).scheduler.Profiles
	instances := map[string]fwk.Plugin{}
	for _, plugin := range profiles[names.SchedulerName].EnqueueExtensions() {
		instances[plugin.Name()] = plugin
	}
	ours := 0
	for _, plugin := range profiles[names.SchedulerPluginsName].EnqueueExtensions() {
		if !strings.HasSuffix(reflect.TypeOf(plugin).String(), ".Plugin") {
			continue // Kubernetes' own
		}
		if ours++; plugin != instances[plugin.Name()] {
			t.Errorf("each profile has its own %s", plugin.Name())
		}
	}
	if ours < 2 {
		t.Errorf("only %d plugins of ours were found", ours)
	}
}
