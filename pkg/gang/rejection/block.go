// Package rejection reads what keeps the members of a gang from starting although there is room for all of them: the words of other plugins and of
// the API server, and which changes of the cluster may matter to them.
package rejection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// Block is what keeps a member off nodes that have room for it. Events that cannot change that are not passed on to its gang. nil means that
// any event may matter.
type Block struct {
	pod     *corev1.Pod
	plugins []blockingPlugin
	// blockedPlaces are the nodes, or domains of nodes, where more room would not help.
	blockedPlaces sets.Set[string]
}

// nodeLocalPlugins are the plugins whose verdict on a node depends only on that node and its free resources. "" stands for nodes that no plugin
// checked.
var nodeLocalPlugins = sets.New("", "Coscheduling", "GPUFilter", "NodeAffinity", "NodeName", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration")

// maxBlockedPlaces is how many nodes and domains are remembered for one gang. Room on any other one activates the gang.
const maxBlockedPlaces = 64

// Attempt is an attempt to place a member that found no node.
type Attempt struct {
	Pod *corev1.Pod
	// AreAlike says that all waiting members are kept off for the same reasons.
	AreAlike bool
	// Nodes are the names of the nodes, and Statuses what the plugins said of them.
	Nodes    []string
	Statuses fwk.NodeToStatusReader
}

// NewBlock determines why a member is kept off nodes, nil if any event may change that. nodeOf returns a node by its name, nil for none.
func NewBlock(failed Attempt, nodeOf func(string) *corev1.Node) *Block {
	k := &Block{pod: failed.Pod, blockedPlaces: sets.New[string]()}
	for _, name := range failed.Nodes {
		status := failed.Statuses.Get(name)
		by := k.pluginFor(status.Plugin())
		switch {
		case by != nil:
			if failed.AreAlike && k.blockedPlaces.Len() < maxBlockedPlaces {
				k.blockedPlaces.Insert(by.blockedPlace(status, name, nodeOf(name)))
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
func (k *Block) pluginFor(plugin string) *blockingPlugin {
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
func (k *blockingPlugin) blockedPlace(status *fwk.Status, name string, node *corev1.Node) string {
	if node != nil && len(k.keys) > 0 && !slices.Contains(status.Reasons(), string(reason.Repelled.Text)) {
		return k.domainKey(node)
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

// IsInDomain reports whether a node is in a domain that blocks the member.
func (k *Block) IsInDomain(node *corev1.Node) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return len(by.keys) > 0 && k.blockedPlaces.Has(by.domainKey(node)) })
}

// IsMoved reports whether a node has moved to another domain, together with its pods.
func (k *Block) IsMoved(before, after *corev1.Node) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return by.domainKey(before) != by.domainKey(after) })
}

// BlocksNode reports whether more room on a node would not help.
func (k *Block) BlocksNode(node *corev1.Node) bool {
	return k != nil && (k.blockedPlaces.Has(node.Name) || k.IsInDomain(node))
}

// MayBlock reports whether a leaving pod may have kept the member out, wherever it was.
func (k *Block) MayBlock(pod *corev1.Pod) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return by.mayBlock(pod) })
}

// MayHelp reports whether an arriving pod may let the member in.
func (k *Block) MayHelp(pod *corev1.Pod) bool {
	return k != nil && slices.ContainsFunc(k.plugins, func(by blockingPlugin) bool { return by.mayHelp != nil && by.mayHelp(pod) })
}
