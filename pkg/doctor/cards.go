package doctor

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Plugin is a DaemonSet that offers GPUs to kubelet: gpu-agent, or another device plugin.
type Plugin struct {
	Namespace, Name string
	// Pod defines on which nodes it runs.
	Pod corev1.PodSpec
}

// String is its display name: ours without the namespace.
func (p *Plugin) String() string {
	if p.isAgent() {
		return p.Name
	}
	return "DaemonSet " + p.Namespace + "/" + p.Name
}

func (p *Plugin) isAgent() bool { return p.Namespace == "kube-system" && p.Name == agentName }

// reportsOnly reports whether an agent leaves the GPUs to another device plugin.
func (p *Plugin) reportsOnly() bool {
	return slices.ContainsFunc(p.Pod.Containers, func(c corev1.Container) bool {
		return strings.Contains(strings.Join(c.Args, "=")+"=", "--mode=report=") // the value may be a word of its own
	})
}

// pluginFolder is where device plugins register with kubelet, and labelPresent is the label of NVIDIA's feature discovery for nodes with GPUs.
const (
	pluginFolder = "/var/lib/kubelet/device-plugins"
	labelPresent = "nvidia.com/gpu.present"
)

// newPlugin returns the plugin of a DaemonSet, nil if it is none for NVIDIA's GPUs: those mount kubelet's folder, and identify themselves in their
// name or image. Plugins for other devices mount the folder as well.
func newPlugin(d *appsv1.DaemonSet) *Plugin {
	pod := &d.Spec.Template.Spec
	out := &Plugin{Namespace: d.Namespace, Name: d.Name, Pod: *pod}
	if out.isAgent() && out.reportsOnly() {
		return nil
	}
	if out.isAgent() {
		return out
	}
	meets := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && path.Clean(v.HostPath.Path) == pluginFolder
	})
	says := d.Name
	for i := range pod.Containers {
		says += " " + pod.Containers[i].Image
	}
	if says = strings.ToLower(says); !meets || !strings.Contains(says, "nvidia") || !strings.Contains(says, "device-plugin") {
		return nil
	}
	return out
}

// runsOn reports whether a pod of the plugin can run on a node.
func (p *Plugin) runsOn(node *corev1.Node) bool {
	pod := &corev1.Pod{Spec: p.Pod}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !matches {
		return false
	}
	_, kept := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, p.Pod.Tolerations, func(t *corev1.Taint) bool {
		// DaemonSets tolerate the taints that Kubernetes itself sets on a node.
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/")
	}, false)
	return !kept
}

// hasGPUSigns reports whether anything indicates that a node has GPUs.
func hasGPUSigns(node *corev1.Node) bool {
	return node.Labels[labelPresent] == names.True || node.Labels[names.LabelAgent] == names.True || gpu.TypeOf(node) != "" || offersDevices(node)
}

// offersDevices reports whether a node has GPUs for pods.
func offersDevices(node *corev1.Node) bool {
	return slices.ContainsFunc([]corev1.ResourceName{names.ResourceGPU, names.ResourceSharedGPU}, func(name corev1.ResourceName) bool {
		total, given := node.Status.Capacity[name], node.Status.Allocatable[name]
		return !total.IsZero() || !given.IsZero()
	})
}

// checkGPUPlugins checks that exactly one device plugin offers the GPUs of each node: kubelet uses the plugin that registered last, so two of them take the
// GPUs from each other, and without any pods get none.
func (f *Installation) checkGPUPlugins() Check {
	const name = "cards"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	if slices.Contains(f.Hidden, partWorkloads) {
		return Check{Name: name, Status: Unknown, Text: phrase.Textf("you may not read which device plugins there are"), Advice: phrase.Textf("ask an administrator to run gpuctl doctor --install")}
	}
	var twice, never []string
	var rivals []string
	by := map[string]int{}
	for i := range f.Nodes {
		node := &f.Nodes[i]
		if !hasGPUSigns(node) {
			continue
		}
		var of []string
		for j := range f.Plugins {
			if f.Plugins[j].runsOn(node) {
				of = append(of, f.Plugins[j].String())
			}
		}
		switch {
		case len(of) > 1:
			twice, rivals = append(twice, node.Name), append(rivals, of...)
		case len(of) == 1:
			by[of[0]]++
		case offersDevices(node):
			by[byOthers]++
		default:
			never = append(never, node.Name)
		}
	}
	return gpuPluginsCheck(name, twice, rivals, never, by)
}

// byOthers stands for an unknown plugin that offers the GPUs of nodes.
const byOthers = "others"

// quoteNames are names as they are.
func quoteNames(names []string) []phrase.Text {
	out := make([]phrase.Text, len(names))
	for i, name := range names {
		out[i] = phrase.Quote(name)
	}
	return out
}

func gpuPluginsCheck(name string, twice, rivals, never []string, by map[string]int) Check {
	slices.Sort(rivals)
	slices.Sort(twice)
	slices.Sort(never)
	switch {
	case len(twice) > 0:
		return Check{Name: name, Status: Failed,
			Text: phrase.Textf("%s are for the same nodes, and kubelet takes the cards of who registered last: %s",
				phrase.Join(quoteNames(slices.Compact(rivals)), phrase.Textf(" and ")), examplesText(twice)),
			Advice: phrase.Textf("keep one of them from these nodes: gpu-agent by taking the label %s away, NVIDIA's as docs/install.md says", names.LabelAgent)}
	case len(never) > 0:
		return Check{Name: name, Status: Warning,
			Text:   phrase.Textf("neither gpu-agent nor a device plugin is for nodes with cards, so that pods get none of them: %s", examplesText(never)),
			Advice: phrase.Textf("kubectl label node NODE %s=%s for gpu-agent; or install NVIDIA's device plugin, as docs/install.md says", names.LabelAgent, names.True)}
	case len(by) == 0:
		return Check{Name: name, Status: OK, Text: phrase.Textf("no node says that it has cards")}
	}
	who := make([]phrase.Text, 0, len(by))
	for _, of := range slices.Sorted(maps.Keys(by)) {
		name := phrase.Quote(of)
		if of == byOthers {
			name = phrase.Textf("others")
		}
		who = append(who, phrase.Textf("those of %d by %s", by[of], name))
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("each node with cards has one who offers them: %s", phrase.Join(who, comma))}
}
