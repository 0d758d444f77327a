package main

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bench/load"
	"g8s.host/gpu-scheduler/test/fixture"
)

// row is a shape of pods.
type row struct {
	name  string
	hosts hosts
	// together is how many pods come at a time, 0 for one.
	together int
	// gpus is how many each asks for.
	gpus int64
	// change makes the i-th pod what the row is about.
	change func(a *axes, i int, pod *corev1.Pod)
}

// column is a cluster and the requests that come to it.
type column struct {
	name string
	axes axes
}

// gangSize is how many pods a gang has, jobSize how many replicas a job.
const (
	gangSize = 4
	jobSize  = 20
)

var rows = []row{
	{name: "1 GPU", gpus: 1},
	{name: "2 GPUs", gpus: 2},
	{name: "4 GPUs", gpus: 4},
	{name: "8 GPUs", gpus: 8},
	{name: "shared GPU", hosts: shared, change: share},
	{name: "MIG slice", hosts: sliced, change: slice},
	{name: "any of 3 types", gpus: 1, change: anyType},
	{name: "inference replicas", gpus: 1, change: replica},
	{name: "required affinity", gpus: 1, change: inZone},
	{name: "preferred affinity", gpus: 1, change: preferZone},
	{name: "topology spread", gpus: 1, change: spread},
	{name: "volume", gpus: 1, change: mount},
	{name: "gang of 4", gpus: 1, together: gangSize, change: join},
	{name: "no GPU", change: anywhere},
	{name: "no GPU, nodes without", hosts: mixed, change: anywhere},
}

// columns go one axis at a time from the first, and then to corners that are known to be bad.
var columns = []column{
	{"half full", with(func(*axes) {})},
	{"idle", with(func(a *axes) { a.state = idle })},
	{"95 % full", with(func(a *axes) { a.state = most })},
	{"fragmented", with(func(a *axes) { a.state = fragments })},
	{"full", with(func(a *axes) { a.state = full })},
	{"1 pool", with(func(a *axes) { a.pools = 1 })},
	{"80 pools", with(func(a *axes) { a.pools = 80 })},
	{"30 types", with(func(a *axes) { a.types = 30 })},
	{"128 requests", with(func(a *axes) { a.shapes = 128 })},
	{"requests differ", with(func(a *axes) { a.shapes = 0 })},
	{"hosts differ", with(func(a *axes) { a.uneven = true })},
	{"1,000 nodes", with(func(a *axes) { a.nodes = 1000 })},
	{"20,000 nodes", with(func(a *axes) { a.nodes = 20000 })},
	{"20,000, 80 pools", with(func(a *axes) { a.nodes, a.pools = 20000, 80 })},
	{"5,000, 4 of 20 pools", with(func(a *axes) { a.nodes, a.pools, a.asked = 5000, 20, 4 })},
	{"20,000, 4 of 80 pools", with(func(a *axes) { a.nodes, a.pools, a.asked = 20000, 80, 4 })},
	{"50,000, 4 of 200 pools", with(func(a *axes) { a.nodes, a.pools, a.asked = 50000, 200, 4 })},
	{"1 pool, idle", with(func(a *axes) { a.pools, a.state = 1, idle })},
	{"1 pool, 128 requests", with(func(a *axes) { a.pools, a.shapes = 1, 128 })},
	{"all differ, 1 pool", with(func(a *axes) { a.pools, a.shapes, a.uneven = 1, 0, true })},
}

// with returns the cluster that all others differ from in one respect or two.
func with(change func(*axes)) axes {
	a := axes{nodes: 5000, pools: 4, types: 1, state: half, shapes: 1}
	change(&a)
	return a
}

// isFull reports whether no GPU of the cluster is free.
func (a *axes) isFull() bool { return a.state.share() == 1 }

// refuses reports whether pods of the row find no place in a cluster.
func (r *row) refuses(a *axes) bool { return a.isFull() && (r.gpus > 0 || r.hosts == sliced) }

// comparable reports whether both schedulers agree on whether pods of the row find a place in a cluster: where cards are
// shared, the stock scheduler sees none of the memory that is missing.
func (r *row) comparable(a *axes) bool { return !a.isFull() || r.hosts != shared }

// places is how many pods of the row find a place in a cluster if they come in turn to all of its pools and types.
func (r *row) places(a *axes) int {
	if r.gpus == 0 || a.isFull() {
		return math.MaxInt
	}
	places := 0
	for node := range a.nodes / a.cells() {
		free := int64(load.GPUsPerNode)
		for _, held := range a.state[node%len(a.state)] {
			free -= int64(held)
		}
		places += int(free / r.gpus)
	}
	return places * a.askedCells()
}

// pod builds the i-th pod of a row.
func (r *row) pod(a *axes, i int) *corev1.Pod {
	pool, gpuType := a.asks(i)
	pod := fixture.Pod(fmt.Sprintf("pod-%06d", i)).Pool(pool).Type(gpuType).GPUs(r.gpus).Obj()
	pod.Namespace, pod.UID = namespace, types.UID(pod.Name)
	requests, limits := pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits
	shape := int64(i)
	if a.shapes > 0 {
		shape %= int64(a.shapes)
	}
	requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(1000+shape%1000, resource.DecimalSI)
	requests[corev1.ResourceMemory] = *resource.NewQuantity((1024+shape)<<20, resource.BinarySI)
	delete(limits, corev1.ResourceCPU)
	delete(limits, corev1.ResourceMemory)
	if r.change != nil {
		r.change(a, i, pod)
	}
	return pod
}

func share(_ *axes, _ int, pod *corev1.Pod) {
	ask(pod, names.ResourceSharedGPU, 1)
	pod.Annotations[names.AnnotationGPUShare] = "8Gi"
}

func slice(_ *axes, _ int, pod *corev1.Pod) { ask(pod, migSlice, 1) }

func anyType(_ *axes, _ int, pod *corev1.Pod) {
	delete(pod.Spec.NodeSelector, names.LabelGPUType)
	pod.Annotations[names.AnnotationGPUTypes] = typeName(0) + "," + typeName(1) + "," + typeName(2)
}

func replica(_ *axes, i int, pod *corev1.Pod) {
	pod.Labels[names.LabelJobType] = "inference"
	pod.Labels[names.LabelJob] = fmt.Sprint("job-", i/jobSize)
}

func inZone(_ *axes, _ int, pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{zoneIn(1)}},
	}}
}

func preferZone(_ *axes, _ int, pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: zoneIn(1)}},
	}}
}

func zoneIn(i int) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone(i)},
	}}}
}

func spread(_ *axes, i int, pod *corev1.Pod) {
	pod.Labels["app"] = fmt.Sprint("app-", i/jobSize)
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
	}}
}

func mount(_ *axes, _ int, pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
}

// join puts each four pods in one gang, all of one pool.
func join(a *axes, i int, pod *corev1.Pod) {
	pool, gpuType := a.asks(i / gangSize)
	pod.Spec.NodeSelector = map[string]string{names.LabelPool: pool, names.LabelGPUType: gpuType}
	pod.Labels[names.LabelPodGroup] = gangName(i)
}

func gangName(i int) string { return fmt.Sprint("gang-", i/gangSize) }

func anywhere(_ *axes, _ int, pod *corev1.Pod) { pod.Spec.NodeSelector = nil }
