package coscheduling

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/hint"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// filterBlock is what keeps a member off nodes that have room for it. Events that cannot change that are not passed on to its gang. nil means that
// any event may matter.
type filterBlock struct {
	pod     *corev1.Pod
	plugins []blockingPlugin
	// blockedPlaces are the nodes, or domains of nodes, where more room would not help.
	blockedPlaces sets.Set[string]
}

// blockingPlugin is a filter plugin, and how its verdict on a member depends on other pods.
type blockingPlugin struct {
	plugin string
	// mayBlock reports whether the plugin may admit the member when a pod leaves, mayHelp whether it may when a pod arrives.
	mayBlock, mayHelp func(*corev1.Pod) bool
	// keys are the node labels that alone determine the verdict on a node. If empty, the node itself does.
	keys []string
}

// blockingPlugins are the filters of Kubernetes that can keep members out of free room.
var blockingPlugins = map[string]func(member *corev1.Pod) blockingPlugin{
	"InterPodAffinity":   blocksByAffinity,
	"PodTopologySpread":  blocksBySpread,
	"NodePorts":          blocksByPorts,
	"VolumeRestrictions": blocksByVolumes,
	"VolumeBinding":      blocksByVolumes,
	"VolumeZone":         blocksByVolumes,
	"NodeVolumeLimits":   blocksByVolumes,
}

// nodeLocalPlugins are the plugins whose verdict on a node depends only on that node and its free resources. "" stands for nodes that no plugin
// checked.
var nodeLocalPlugins = sets.New("", Name, "GPUFilter", "NodeAffinity", "NodeName", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration")

// maxBlockedPlaces is how many nodes and domains are remembered for one gang. Room on any other one activates the gang.
const maxBlockedPlaces = 64

// newFilterBlock determines why a member is kept off nodes, nil if any event may change that.
func (p *Plugin) newFilterBlock(pod *corev1.Pod, m *placement.Members, refused fwk.NodeToStatusReader) *filterBlock {
	k := &filterBlock{pod: pod, blockedPlaces: sets.New[string]()}
	same := m.AreAlike(pod)
	for _, name := range p.nodeNames() {
		status := refused.Get(name)
		by := k.pluginFor(status.Plugin())
		switch {
		case by != nil:
			if same && k.blockedPlaces.Len() < maxBlockedPlaces {
				k.blockedPlaces.Insert(p.blockedPlace(by, status, name))
			}
		case !nodeLocalPlugins.Has(status.Plugin()):
			return nil
		}
	}
	if len(k.plugins) == 0 {
		return nil
	}
	return k
}

// pluginFor returns the filter for a plugin, nil if it is no such filter.
func (k *filterBlock) pluginFor(plugin string) *blockingPlugin {
	for i := range k.plugins {
		if k.plugins[i].plugin == plugin {
			return &k.plugins[i]
		}
	}
	read, ok := blockingPlugins[plugin]
	if !ok {
		return nil
	}
	by := read(k.pod)
	by.plugin = plugin
	k.plugins = append(k.plugins, by)
	return &k.plugins[len(k.plugins)-1]
}

// blockedPlace returns the name of a refused node, or of its domain if the whole domain is refused for the same reason. Pods that repel the
// member do so by labels that only those pods name.
func (p *Plugin) blockedPlace(by *blockingPlugin, status *fwk.Status, name string) string {
	if node, err := p.nodes.Get(name); err == nil && len(by.keys) > 0 && !slices.Contains(status.Reasons(), string(reason.Repelled.Text)) {
		return by.domainKey(node)
	}
	return name
}

// domainKey returns a unique name for the domain of a node, different from all node names.
func (k *blockingPlugin) domainKey(node *corev1.Node) string {
	parts := []string{k.plugin}
	for _, key := range k.keys {
		value, ok := node.Labels[key]
		if !ok {
			value = "/" // no label has this value
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, "\x00")
}

// isInDomain reports whether a node is in a domain that blocks the member.
func (k *filterBlock) isInDomain(node *corev1.Node) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return len(by.keys) > 0 && k.blockedPlaces.Has(by.domainKey(node)) })
}

// isMoved reports whether a node has moved to another domain, together with its pods.
func (k *filterBlock) isMoved(before, after *corev1.Node) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return by.domainKey(before) != by.domainKey(after) })
}

// blocksNode reports whether more room on a node would not help.
func (k *filterBlock) blocksNode(node *corev1.Node) bool {
	return k != nil && (k.blockedPlaces.Has(node.Name) || k.isInDomain(node))
}

// mayBlock reports whether a leaving pod may have kept the member out, wherever it was.
func (k *filterBlock) mayBlock(pod *corev1.Pod) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return by.mayBlock(pod) })
}

// mayHelp reports whether an arriving pod may let the member in.
func (k *filterBlock) mayHelp(pod *corev1.Pod) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return by.mayHelp != nil && by.mayHelp(pod) })
}

func blocksByAffinity(member *corev1.Pod) blockingPlugin {
	var apart, together []hint.Term
	if affinity := member.Spec.Affinity; affinity != nil {
		if affinity.PodAntiAffinity != nil {
			apart = hint.TermsOf(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, member.Namespace)
		}
		if affinity.PodAffinity != nil {
			together = hint.TermsOf(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, member.Namespace)
		}
	}
	var keys []string
	for _, terms := range [][]hint.Term{apart, together} {
		for i := range terms {
			keys = append(keys, terms[i].Key)
		}
	}
	return blockingPlugin{
		keys:     keys,
		mayBlock: func(pod *corev1.Pod) bool { return hint.AnySelects(apart, pod) || hint.Repels(pod, member) },
		mayHelp:  func(pod *corev1.Pod) bool { return hint.AnySelects(together, pod) },
	}
}

func blocksBySpread(member *corev1.Pod) blockingPlugin {
	var keys []string
	var selectors []labels.Selector
	for i := range member.Spec.TopologySpreadConstraints {
		constraint := &member.Spec.TopologySpreadConstraints[i]
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		keys = append(keys, constraint.TopologyKey)
		if selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector); err == nil {
			selectors = append(selectors, selector)
		}
	}
	// A leaving pod may have been one too many; a pod that arrives elsewhere may raise the minimum that the member's domain is compared with.
	counts := func(pod *corev1.Pod) bool {
		return pod.Namespace == member.Namespace &&
			slices.ContainsFunc(selectors, func(selector labels.Selector) bool { return selector.Matches(labels.Set(pod.Labels)) })
	}
	return blockingPlugin{keys: keys, mayBlock: counts, mayHelp: counts}
}

func blocksByPorts(member *corev1.Pod) blockingPlugin {
	own := portsOf(member)
	return blockingPlugin{mayBlock: func(pod *corev1.Pod) bool { return own.HasAny(portsOf(pod).UnsortedList()...) }}
}

// portsOf returns the host ports that a pod uses, regardless of address and protocol.
func portsOf(pod *corev1.Pod) sets.Set[int32] {
	var ports sets.Set[int32]
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for j := range containers[i].Ports {
				if port := containers[i].Ports[j].HostPort; port > 0 {
					if ports == nil {
						ports = sets.New[int32]()
					}
					ports.Insert(port)
				}
			}
		}
	}
	return ports
}

func blocksByVolumes(*corev1.Pod) blockingPlugin { return blockingPlugin{mayBlock: hasVolume} }

// hasVolume reports whether a pod uses a volume that is not available on every node.
func hasVolume(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return !placement.IsEverywhere(&volume.VolumeSource) })
}
