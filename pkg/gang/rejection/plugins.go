package rejection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/hint"
)

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
