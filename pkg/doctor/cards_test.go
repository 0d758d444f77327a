package doctor

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// daemons is a DaemonSet whose pods have kubelet's folder of device plugins.
func daemons(namespace, name, image string, change ...func(*corev1.PodSpec)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{Image: image}},
		Volumes:    []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: pluginFolder + "/"}}}},
	}
	for _, c := range change {
		c(&d.Spec.Template.Spec)
	}
	return d
}

func onLabel(label string) func(*corev1.PodSpec) {
	return func(pod *corev1.PodSpec) { pod.NodeSelector = map[string]string{label: names.True} }
}

func TestWhoOffersCards(t *testing.T) {
	agent := daemons("kube-system", agentName, "r/gpu-agent:v1", onLabel(names.LabelAgent))
	nvidia := daemons("kube-system", "nvdp", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0")
	beside := daemons("gpu-operator", "nvidia-device-plugin-daemonset", "r/mirror:1", func(pod *corev1.PodSpec) {
		pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: labelPresent, Operator: corev1.NodeSelectorOpExists}, {Key: names.LabelAgent, Operator: corev1.NodeSelectorOpDoesNotExist},
			}}},
		}}}
	})
	node := func(name string, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, label := range labels {
			n.Labels[label] = names.True
		}
		return n
	}
	offering := node("sold")
	offering.Status.Capacity = corev1.ResourceList{names.ResourceGPU: resource.MustParse("8")}
	tainted := node("b", labelPresent)
	tainted.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute}}
	asleep := node("c", labelPresent)
	asleep.Spec.Taints = tainted.Spec.Taints[1:]
	both := []corev1.Node{node("a", names.LabelAgent), node("b", labelPresent)}
	tests := map[string]struct {
		daemons []*appsv1.DaemonSet
		nodes   []corev1.Node
		status  Status
		says    string
	}{
		"no node has cards":      {nodes: []corev1.Node{node("cpu")}, daemons: []*appsv1.DaemonSet{nvidia}, says: "no node says that it has cards"},
		"the agent alone":        {nodes: both[:1], daemons: []*appsv1.DaemonSet{agent}, says: "those of 1 by gpu-agent"},
		"NVIDIA's alone":         {nodes: both, daemons: []*appsv1.DaemonSet{nvidia}, says: "those of 2 by DaemonSet kube-system/nvdp"},
		"each has its own nodes": {nodes: both, daemons: []*appsv1.DaemonSet{agent, beside}, says: "those of 1 by DaemonSet gpu-operator/nvidia-device-plugin-daemonset, those of 1 by gpu-agent"},
		"both are for one node":  {nodes: both, daemons: []*appsv1.DaemonSet{agent, nvidia}, status: Failed, says: "DaemonSet kube-system/nvdp and gpu-agent are for the same nodes, and kubelet takes the cards of who registered last: a"},
		"NVIDIA's, beside an agent that reports": {nodes: both, says: "those of 2 by DaemonSet kube-system/nvdp", daemons: []*appsv1.DaemonSet{nvidia,
			daemons("kube-system", agentName, "gpu-agent", func(pod *corev1.PodSpec) { pod.Containers[0].Args = []string{"--mode=report"} })}},
		"two of NVIDIA's":                   {nodes: both, daemons: []*appsv1.DaemonSet{nvidia, beside}, status: Failed, says: "registered last: b"},
		"nobody is for a node":              {nodes: both, daemons: []*appsv1.DaemonSet{agent}, status: Warning, says: "pods get none of them: b"},
		"nobody is there at all":            {nodes: both, status: Warning, says: "pods get none of them: a, b"},
		"a taint keeps the plugin away":     {nodes: []corev1.Node{tainted}, daemons: []*appsv1.DaemonSet{nvidia}, status: Warning, says: "pods get none of them: b"},
		"what Kubernetes says does not":     {nodes: []corev1.Node{asleep}, daemons: []*appsv1.DaemonSet{nvidia}, says: "those of 1 by DaemonSet kube-system/nvdp"},
		"somebody of whom nothing is known": {nodes: []corev1.Node{offering}, says: "those of 1 by others"},
		"a plugin for other devices":        {nodes: both[1:], daemons: []*appsv1.DaemonSet{daemons("kube-system", "rdma", "nvidia/k8s-rdma-shared")}, status: Warning, says: "none of them: b"},
		"what has no part in kubelet": {nodes: both[1:], status: Warning, says: "none of them: b", daemons: []*appsv1.DaemonSet{
			daemons("team", "nvidia-device-plugin", "mine", func(pod *corev1.PodSpec) { pod.Volumes = nil })}},
		"another's gpu-agent is none of ours": {nodes: both[:1], status: Warning, says: "none of them: a", daemons: []*appsv1.DaemonSet{daemons("team", agentName, "mine")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var f Installation
			f.Nodes = tc.nodes
			for _, d := range tc.daemons {
				if p := newPlugin(d); p != nil {
					f.Plugins = append(f.Plugins, *p)
				}
			}
			want := tc.status
			if want == "" {
				want = OK
			}
			if got := f.checkGPUPlugins(); got.Status != want || !strings.HasSuffix(got.Text.String(), tc.says) || (len(got.Advice) == 0) != (want == OK) {
				t.Errorf("it says %+v, want %s, %q", got, want, tc.says)
			}
		})
	}
}
