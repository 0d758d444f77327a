package coscheduling

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/hint"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// keptOff is what keeps a member off nodes on which there is room for it. What happens in the cluster and cannot change that is no news to
// its gang. A nil one says that anything may be.
type keptOff struct {
	pod *corev1.Pod
	by  []keeper
	// off are the nodes, or domains of nodes, where more room would not help.
	off sets.Set[string]
}

// keeper is a filter plugin, and how pods that come and go change what it says to a member.
type keeper struct {
	plugin string
	// isInTheWay reports whether the plugin may let the member in when a pod leaves, helps whether it may when a pod comes.
	isInTheWay, helps func(*corev1.Pod) bool
	// keys are the labels of a node that alone decide what the plugin says of it; without any it is the node itself.
	keys []string
}

// keepers reads the filters of Kubernetes that keep members out of free room.
var keepers = map[string]func(member *corev1.Pod) keeper{
	"InterPodAffinity":   byAffinity,
	"PodTopologySpread":  bySpread,
	"NodePorts":          byPorts,
	"VolumeRestrictions": byVolumes,
	"VolumeBinding":      byVolumes,
	"VolumeZone":         byVolumes,
	"NodeVolumeLimits":   byVolumes,
}

// ofNode are the plugins whose verdict on a node follows from that node and what is free there, "" for nodes that none was asked of.
var ofNode = sets.New("", Name, "GPUFilter", "NodeAffinity", "NodeName", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration")

const (
	// mostOff is how many nodes and domains are kept in mind of one gang. Room on any beyond that has it tried.
	mostOff = 64
	// mostRead is how many bytes of members are read to see whether they are alike.
	mostRead = 1 << 20
)

// keptOffBy reads why a member is kept off nodes, nil where that may be for a reason that anything can change.
func (p *Plugin) keptOffBy(pod *corev1.Pod, m *members, refused fwk.NodeToStatusReader) *keptOff {
	k := &keptOff{pod: pod, off: sets.New[string]()}
	same := m.areAlike(pod)
	for _, name := range p.nodeNames() {
		status := refused.Get(name)
		by := k.keeper(status.Plugin())
		switch {
		case by != nil:
			if same && k.off.Len() < mostOff {
				k.off.Insert(p.placeKeptOff(by, status, name))
			}
		case !ofNode.Has(status.Plugin()):
			return nil
		}
	}
	if len(k.by) == 0 {
		return nil
	}
	return k
}

// keeper returns what there is to know of a plugin, nil for one that is no such filter.
func (k *keptOff) keeper(plugin string) *keeper {
	for i := range k.by {
		if k.by[i].plugin == plugin {
			return &k.by[i]
		}
	}
	read, ok := keepers[plugin]
	if !ok {
		return nil
	}
	by := read(k.pod)
	by.plugin = plugin
	k.by = append(k.by, by)
	return &k.by[len(k.by)-1]
}

// placeKeptOff names the node that a plugin refused, or its domain where all of that is refused for the same reason. Pods that keep the member
// from them do so by labels that only they name.
func (p *Plugin) placeKeptOff(by *keeper, status *fwk.Status, name string) string {
	if node, err := p.nodes.Get(name); err == nil && len(by.keys) > 0 && !slices.Contains(status.Reasons(), string(reason.Repelled.Text)) {
		return by.domain(node)
	}
	return name
}

// domain names the domain of a node, as no node is named.
func (k *keeper) domain(node *corev1.Node) string {
	parts := []string{k.plugin}
	for _, key := range k.keys {
		value, ok := node.Labels[key]
		if !ok {
			value = "/" // which no label may be
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, "\x00")
}

// inDomain reports whether a node lies in a domain that the member is kept off.
func (k *keptOff) inDomain(node *corev1.Node) bool {
	return k != nil && slices.ContainsFunc(k.by, func(by keeper) bool { return len(by.keys) > 0 && k.off.Has(by.domain(node)) })
}

// isMoved reports whether a node is in another domain than before: it has taken its pods along.
func (k *keptOff) isMoved(before, after *corev1.Node) bool {
	return k != nil && slices.ContainsFunc(k.by, func(by keeper) bool { return by.domain(before) != by.domain(after) })
}

// from reports whether more room on a node would not help.
func (k *keptOff) from(node *corev1.Node) bool {
	return k != nil && (k.off.Has(node.Name) || k.inDomain(node))
}

// isInTheWay reports whether a pod that leaves may have kept the member out, wherever it was.
func (k *keptOff) isInTheWay(pod *corev1.Pod) bool {
	return k != nil && slices.ContainsFunc(k.by, func(by keeper) bool { return by.isInTheWay(pod) })
}

// isHelped reports whether a pod that comes may let the member in.
func (k *keptOff) isHelped(pod *corev1.Pod) bool {
	return k != nil && slices.ContainsFunc(k.by, func(by keeper) bool { return by.helps != nil && by.helps(pod) })
}

// areAlike reports whether filters treat all members that wait, and those that hold a place, as they do one of them. Otherwise the others
// may go to room where that one cannot, and leave it theirs.
func (m *members) areAlike(pod *corev1.Pod) bool {
	own, read := imprintOf(pod, 0)
	for _, members := range [][]*corev1.Pod{m.waiting, m.placed} {
		for _, other := range members {
			of, bytes := imprintOf(other, 0)
			if read += bytes; read > mostRead || of != own || !alike(pod, other) {
				return false
			}
		}
	}
	return true
}

func byAffinity(member *corev1.Pod) keeper {
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
	return keeper{
		keys:       keys,
		isInTheWay: func(pod *corev1.Pod) bool { return hint.AnySelects(apart, pod) || hint.Repels(pod, member) },
		helps:      func(pod *corev1.Pod) bool { return hint.AnySelects(together, pod) },
	}
}

func bySpread(member *corev1.Pod) keeper {
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
	// One that leaves may have been too many, one that comes elsewhere has the member's domain lag behind.
	counts := func(pod *corev1.Pod) bool {
		return pod.Namespace == member.Namespace &&
			slices.ContainsFunc(selectors, func(selector labels.Selector) bool { return selector.Matches(labels.Set(pod.Labels)) })
	}
	return keeper{keys: keys, isInTheWay: counts, helps: counts}
}

func byPorts(member *corev1.Pod) keeper {
	own := portsOf(member)
	return keeper{isInTheWay: func(pod *corev1.Pod) bool { return own.HasAny(portsOf(pod).UnsortedList()...) }}
}

// portsOf are the ports of its node that a pod takes, of whatever address and protocol.
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

func byVolumes(*corev1.Pod) keeper { return keeper{isInTheWay: hasVolume} }

// hasVolume reports whether a pod holds a volume that is not on every node.
func hasVolume(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return !isEverywhere(&volume.VolumeSource) })
}
